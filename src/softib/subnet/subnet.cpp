#include "softib/subnet/subnet.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "softib/subnet/cm_refusals.hpp"
#include "softib/subnet/multicast_groups.hpp"
#include "softib/subnet/sa_members.hpp"
#include "softib/subnet/sma.hpp"
#include "softib/subnet/subnet_administrator.hpp"
#include "softib/subnet/subnet_manager.hpp"
#include "wire/cm_messages.hpp"

namespace softib::subnet {

using ipoib::Result;
using ipoib::TimePoint;

namespace {
constexpr Qpn kSmiQpn{0};

ipoib::Error sm_port_is_fixed() {
  return ipoib::Error{EINVAL, "node 0 is the subnet manager's own port"};
}

/// Fails with EOPNOTSUPP if an external SM manages the subnet.
Result<void> require_own_sm(const SubnetManager& manager) {
  if (manager.has_own_sm()) return {};
  return ipoib::Error{EOPNOTSUPP,
                      "the subnet is managed by an external subnet manager (--sm none), which "
                      "decides that"};
}
}  // namespace

struct Subnet::State {
  State(SubnetConfig config, PerformanceAgents::Source counted, IsManager is_manager,
        PerformanceAgents::CableSource cables)
      : manager(std::move(config)),
        performance(std::move(counted), std::move(cables)),
        agents(manager, std::move(is_manager)) {}

  SubnetManager manager;
  MulticastGroups groups;
  SubnetCounters counters;
  SubnetAdministrator administrator{manager, groups, counters};
  PerformanceAgents performance;
  SubnetManagementAgents agents;
  std::vector<MadPacket> outgoing;
  std::vector<ForwardedMad> forwarded;
  /// Ports that came into service (true) or went out of it, not yet reported.
  std::vector<std::pair<Gid, bool>> service_changes;
  /// Groups whose members have changed since the last call of take_changes().
  std::bitset<kMaxGroups> changed_groups;

  [[nodiscard]] const Node& own_node() const;
  void adopt_groups(const SubnetSnapshot& before, TimePoint now);
  void route_groups();
  void reroute();
  [[nodiscard]] std::vector<Attachment> find_cables(const CableEnd& from,
                                                    const std::optional<CableEnd>& to) const;
  void create_permanent_groups();
  void add_service_change(const Gid& gid, bool in_service);
  void end_service(NodeIndex index, const Gid& gid, SwitchIndex at);
  void on_state_change(NodeIndex index, PortState before);
  void report_events(TimePoint now);
  void receive_gmp(const MadPacket& packet, TimePoint now);
  void send(const AgentResult& result);
  void send_traps(TimePoint now);
};

/// The node whose port the subnet process uses.
const Node& Subnet::State::own_node() const {
  const Node* const own = manager.has_own_sm() ? manager.node(kSubnetNode) : nullptr;
  return own != nullptr ? *own : manager.switches()[0].node;
}

void Subnet::State::create_permanent_groups() {
  if (!manager.has_own_sm()) return;
  for (const auto& partition : manager.partitions()) {
    if (!partition.broadcast_group) continue;
    const auto record = broadcast_group(partition, manager.mtu());
    if (groups.find(record.mgid) == nullptr) groups.create(record, kSubnetNode, true);
  }
}

void Subnet::State::add_service_change(const Gid& gid, bool in_service) {
  if (administrator.has_subscribers()) service_changes.emplace_back(gid, in_service);
}

/// Ends the memberships and subscriptions of a port that is down.
void Subnet::State::end_service(NodeIndex index, const Gid& gid, SwitchIndex at) {
  groups.remove(index);
  administrator.remove(index);
  add_service_change(gid, false);
  agents.link_changed(at);
}

void Subnet::State::on_state_change(NodeIndex index, PortState before) {
  const PortAttributes& port = manager.node(index)->port;
  if (port.state == before) return;
  const SwitchIndex at = manager.node(index)->attachment.switch_index;
  agents.link_changed(at);
  if (port.state == PortState::active) add_service_change(port.gid(), true);
  if (before == PortState::active) end_service(index, port.gid(), at);
}

void Subnet::State::report_events(TimePoint now) {
  namespace trap = ipoib::wire::trap;
  if (!manager.has_own_sm()) return;
  const Node& sm = own_node();
  ipoib::wire::Notice notice;
  notice.issuer_lid = sm.port.lid;
  notice.issuer_gid = sm.port.gid();
  for (const auto& [gid, in_service] : std::exchange(service_changes, {})) {
    notice.trap_number = in_service ? trap::kInService : trap::kOutOfService;
    notice.gid = gid;
    administrator.report(notice, now, outgoing);
  }
  for (const auto& event : groups.take_events()) {
    notice.trap_number = event.created ? trap::kGroupCreated : trap::kGroupDeleted;
    notice.gid = event.mgid;
    administrator.report(notice, now, outgoing);
  }
}

Subnet::Subnet(SubnetConfig config, PerformanceAgents::Source counters, IsManager is_manager,
               PerformanceAgents::CableSource cables)
    : state_(std::make_unique<State>(std::move(config), std::move(counters), std::move(is_manager),
                                     std::move(cables))) {
  state_->create_permanent_groups();
}
Subnet::~Subnet() = default;

void Subnet::adopt(const SubnetSnapshot& before, TimePoint now) {
  State& s = *state_;
  // With an external SM, the switches keep their tables, so it does not notice the restart.
  s.manager.adopt(before);
  if (s.manager.has_own_sm()) s.adopt_groups(before, now);
}

void Subnet::State::adopt_groups(const SubnetSnapshot& before, TimePoint now) {
  manager.request_reregistration();
  NodeSet active;
  for (const auto& entry : before.nodes) {
    const Node* node = manager.node(entry.index);
    if (node != nullptr && node->port.state == PortState::active) active.set(entry.index);
  }
  groups = MulticastGroups();
  groups.adopt(before.groups, active, now + kRejoinGrace);
  create_permanent_groups();
}

/// To be called after cables between switches have changed.
void Subnet::State::reroute() {
  if (!manager.has_own_sm()) return;
  manager.reroute();
  for (std::size_t i = 0; i < kMaxGroups; ++i) {
    const auto group = groups.forwarding(i);
    if (group != GroupForwarding{}) manager.route_group(i, group.receivers);
  }
}

/// Writes the routes of groups that have other members than before.
void Subnet::State::route_groups() {
  const auto changed = groups.take_changed();
  if (changed.none() || !manager.has_own_sm()) return;
  changed_groups |= changed;
  for (std::size_t i = 0; i < kMaxGroups; ++i) {
    if (changed[i]) manager.route_group(i, groups.forwarding(i).receivers);
  }
}

Result<NodeIndex> Subnet::add_hca(std::string_view name, std::uint8_t port) {
  const bool is_new = !state_->manager.find(name);
  auto added = state_->manager.add(name, port);
  if (!added || !is_new) return added;
  state_->add_service_change(state_->manager.node(*added)->port.gid(), true);
  state_->agents.link_changed(state_->manager.node(*added)->attachment.switch_index);
  return added;
}

Result<void> Subnet::remove_hca(NodeIndex index) {
  if (index == kSubnetNode) return sm_port_is_fixed();
  const Node* found = node(index);
  const Gid gid = found != nullptr ? found->port.gid() : Gid();
  const SwitchIndex at = found != nullptr ? found->attachment.switch_index : SwitchIndex{0};
  auto removed = state_->manager.remove(index);
  if (removed) state_->end_service(index, gid, at);
  return removed;
}

Result<void> Subnet::set_port_state(NodeIndex index, PortState state) {
  const Node* found = state_->manager.node(index);
  const PortState before = found != nullptr ? found->port.state : state;
  if (!state_->manager.has_own_sm()) {
    if (state == PortState::armed) return require_own_sm(state_->manager);
    // Only the link comes up; the external SM does the rest.
    if (state == PortState::active) state = before == PortState::down ? PortState::init : before;
  }
  auto set = state_->manager.set_port_state(index, state);
  if (set) state_->on_state_change(index, before);
  return set;
}

Result<void> Subnet::set_failed(NodeIndex index, bool failed) {
  if (index == kSubnetNode) return sm_port_is_fixed();
  const Node* found = node(index);
  const PortState before = found != nullptr ? found->port.state : PortState::down;
  auto set = state_->manager.set_failed(index, failed);
  if (set) state_->on_state_change(index, before);
  return set;
}

Result<void> Subnet::set_lid(NodeIndex index, Lid lid) {
  if (auto checked = require_own_sm(state_->manager); !checked) return checked;
  return state_->manager.set_lid(index, lid);
}

Result<void> Subnet::set_mtu(NodeIndex index, std::uint8_t mtu) {
  if (auto checked = require_own_sm(state_->manager); !checked) return checked;
  return state_->manager.set_mtu(index, mtu);
}

/// The ports of switches whose cable has the ends `from` and `to`.
std::vector<Attachment> Subnet::State::find_cables(const CableEnd& from,
                                                   const std::optional<CableEnd>& to) const {
  const Switches& switches = manager.switches();
  const auto is_node = [&](const Peer& peer, const CableEnd& end) {
    const Node* const node = peer.kind == Peer::Kind::node ? manager.node(peer.index) : nullptr;
    return node != nullptr && node->name == end.name &&
           (end.port == 0 || end.port == node->port.number);
  };
  const auto is_port = [&](SwitchIndex at, SwitchPort port, const CableEnd& end) {
    return switches[at].node.name == end.name && (end.port == 0 || end.port == port);
  };
  std::vector<Attachment> found;
  for (SwitchIndex at = 0; at < switches.size(); ++at) {
    for (SwitchPort port = 1; port <= switches[at].last_port(); ++port) {
      const Peer peer = switches.peer(at, port);
      if (peer.kind == Peer::Kind::none) continue;
      const auto is_other = [&](const CableEnd& end) {
        return peer.kind == Peer::Kind::switch_port ? is_port(peer.index, peer.port, end)
                                                    : is_node(peer, end);
      };
      const bool is_of_node = is_node(peer, from) && (!to || is_port(at, port, *to));
      const bool is_of_switch = is_port(at, port, from) && (!to || is_other(*to));
      if (is_of_node || is_of_switch) found.push_back({at, port});
    }
  }
  return found;
}

Result<void> Subnet::set_cable(const CableEnd& from, const std::optional<CableEnd>& to,
                               CableState state) {
  const auto found = state_->find_cables(from, to);
  const auto text = [](const CableEnd& end) {
    return end.port == 0 ? end.name : end.name + '[' + std::to_string(end.port) + ']';
  };
  const std::string which = text(from) + (to ? " to " + text(*to) : "");
  if (found.empty()) return ipoib::Error{ENOENT, "there is no cable of " + which};
  if (found.size() > 1) {
    return ipoib::Error{EINVAL, std::to_string(found.size()) + " cables are of " + which +
                                    ": name the port, as in " + from.name + '[' +
                                    std::to_string(found[0].port) + ']'};
  }
  ExternalPort& port = state_->manager.switches()[found[0].switch_index].ports[found[0].port];
  const bool was_plugged_in = std::exchange(port.is_plugged_in, state == CableState::up);
  if (state == CableState::flap) {
    if (auto done = set_link(found[0]); !done) return done;
    port.is_plugged_in = was_plugged_in;
  }
  auto done = set_link(found[0]);
  if (port.peer.kind == Peer::Kind::switch_port) state_->reroute();
  return done;
}

Result<void> Subnet::set_switch(std::string_view name, SwitchState state) {
  Switches& switches = state_->manager.switches();
  const auto index = switches.find(name);
  if (!index) return ipoib::Error{ENOENT, "there is no switch '" + std::string(name) + "'"};
  Switch& at = switches[*index];
  const auto set_present = [&](bool present) -> Result<void> {
    if ((at.node.port.state != PortState::down) == present) return {};
    state_->manager.set_present(*index, present);
    for (SwitchPort port = 1; port <= at.last_port(); ++port) {
      if (at.ports[port].peer.kind == Peer::Kind::none) continue;
      if (auto done = set_link({*index, port}); !done) return done;
    }
    state_->reroute();
    return {};
  };
  if (state != SwitchState::present) {
    if (auto done = set_present(false); !done) return done;
  }
  return state == SwitchState::absent ? Result<void>() : set_present(true);
}

/// Lets a cable come up if it is plugged in and both ends are there, else go down. The caller
/// routes again.
Result<void> Subnet::set_link(const Attachment& at) {
  SubnetManager& manager = state_->manager;
  Switches& switches = manager.switches();
  const ExternalPort& port = switches[at.switch_index].ports[at.port];
  const Peer peer = port.peer;
  const auto is_there = [&](SwitchIndex index) {
    return switches[index].node.port.state != PortState::down;
  };
  bool is_up = port.is_plugged_in && is_there(at.switch_index);
  if (peer.kind == Peer::Kind::node) {
    const PortAttributes& node = manager.node(peer.index)->port;
    const bool is_known = node.failed || (node.state != PortState::down) == is_up;
    return is_known ? Result<void>()
                    : set_port_state(peer.index, is_up ? PortState::active : PortState::down);
  }
  const ExternalPort& other = switches[peer.index].ports[peer.port];
  is_up = is_up && other.is_plugged_in && is_there(peer.index);
  if ((peer.state != PortState::down) == is_up) return {};
  (void)switches.set_cable(at.switch_index, at.port,
                           is_up ? manager.link_up_state() : PortState::down);
  state_->agents.link_changed(at.switch_index);
  state_->agents.link_changed(peer.index);
  return {};
}

Result<void> Subnet::set_port(NodeIndex index, const PortAttributes& port) {
  const Node* const found = node(index);
  if (found == nullptr) return ipoib::Error{ENODEV, "no such HCA"};
  state_->manager.set_port(*found, port);
  return {};
}

Result<void> Subnet::set_faults(NodeIndex index, const LinkFaults& faults) {
  return state_->manager.set_faults(index, faults);
}

Result<void> Subnet::fail_queue_pairs(NodeIndex index, Qpn qpn) {
  if (index == kSubnetNode) return sm_port_is_fixed();
  return state_->manager.fail_queue_pairs(index, qpn);
}

Result<void> Subnet::add_address(NodeIndex index, const IpAddress& address) {
  if (index == kSubnetNode) return sm_port_is_fixed();
  return state_->manager.add_address(index, address);
}

Result<void> Subnet::delete_address(NodeIndex index, const IpAddress& address) {
  return state_->manager.delete_address(index, address);
}

Result<void> Subnet::set_membership(NodeIndex index, PKey pkey, Membership as) {
  if (auto checked = require_own_sm(state_->manager); !checked) return checked;
  auto set = state_->manager.set_membership(index, pkey, as);
  if (!set) return set;
  const bool is_out = !find_pkey(node(index)->port, pkey).is_valid();
  if (is_out) state_->groups.remove(index, pkey);
  return set;
}

Result<void> Subnet::delete_partition(PKey pkey) {
  if (auto checked = require_own_sm(state_->manager); !checked) return checked;
  auto deleted = state_->manager.delete_partition(pkey);
  if (deleted) state_->groups.remove_partition(pkey);
  return deleted;
}

Result<void> Subnet::move_pkey(NodeIndex index, PKey pkey, std::size_t to) {
  if (auto checked = require_own_sm(state_->manager); !checked) return checked;
  return state_->manager.move_pkey(index, pkey, to);
}

Result<void> Subnet::restart_sm(TimePoint now) {
  if (auto checked = require_own_sm(state_->manager); !checked) return checked;
  state_->administrator.restart();
  state_->groups.restart(now + kRejoinGrace);
  state_->service_changes.clear();
  state_->manager.request_reregistration();
  return {};
}

void Subnet::leave_group(NodeIndex index, const Gid& mgid, std::uint8_t join_states) {
  auto* const group = state_->groups.find(mgid);
  if (group != nullptr && group->members.contains(index)) {
    (void)state_->groups.leave(*group, index, join_states);
  }
}

std::optional<NodeIndex> Subnet::find(std::string_view name) const {
  return state_->manager.find(name);
}
const Node* Subnet::node(NodeIndex index) const {
  const SubnetManager& manager = state_->manager;
  const bool is_switch = !manager.has_own_sm() && index == kSubnetNode;
  return is_switch ? &manager.switches()[0].node : manager.node(index);
}
Management Subnet::management() const {
  return state_->manager.has_own_sm() ? Management::own : Management::external_sm;
}
std::optional<NodeIndex> Subnet::node_at(Lid lid) const { return state_->manager.node_at(lid); }
const Switches& Subnet::switches() const { return state_->manager.switches(); }

std::optional<NodeIndex> Subnet::route(NodeIndex from, Lid dlid) const {
  if (!ipoib::is_unicast(dlid)) return std::nullopt;
  const Route route = follow(switches(), node(from)->attachment.switch_index, dlid, false);
  return route.end == RouteEnd::node ? std::optional<NodeIndex>(route.index) : std::nullopt;
}

NodeSet Subnet::receivers(NodeIndex from, Lid mlid) {
  state_->route_groups();
  if (!is_group(mlid)) return {};
  bool has_looped = false;
  return spread(switches(), node(from)->attachment.switch_index, group_index(mlid), has_looped,
                [](SwitchIndex, SwitchPort) {});
}
const std::vector<Partition>& Subnet::partitions() const { return state_->manager.partitions(); }

const std::vector<PortMtu>& Subnet::port_mtus() const { return state_->manager.port_mtus(); }
const SubnetCounters& Subnet::counters() const { return state_->counters; }

GroupForwarding Subnet::forwarding(Lid mlid) const {
  if (!is_group(mlid)) return {};
  if (state_->manager.has_own_sm()) return state_->groups.forwarding(group_index(mlid));
  // With an external SM, only the tables are known.
  return {Gid(), all_receivers(switches(), group_index(mlid))};
}

std::vector<GroupView> Subnet::groups() const {
  std::vector<GroupView> views;
  for (const auto& group : state_->groups.all()) {
    if (!group) continue;
    GroupView view;
    view.mgid = group->record.mgid;
    view.mlid = group->record.mlid;
    view.pkey = group->record.pkey;
    view.qkey = group->record.qkey;
    view.mtu = group->record.mtu;
    view.rate = group->record.rate;
    view.sl = group->record.sl;
    view.permanent = group->permanent;
    for (const auto& [index, member] : group->members) {
      view.members.push_back({index, member.join_state, member.proxy});
    }
    view.receivers = state_->groups.forwarding(group_index(view.mlid)).receivers;
    views.push_back(std::move(view));
  }
  return views;
}

void Subnet::receive(const MadPacket& packet, TimePoint now) {
  state_->report_events(now);
  state_->route_groups();
  if (packet.destination == kSmiQpn) {
    state_->send(state_->agents.receive(packet));
  } else {
    state_->receive_gmp(packet, now);
  }
  state_->report_events(now);
}

void Subnet::State::send(const AgentResult& result) {
  switch (result.outcome) {
    case AgentOutcome::responded:
      ++counters.answered;
      if (result.status != 0) ++counters.refused;
      outgoing.push_back(result.packet);
      break;
    case AgentOutcome::forwarded:
      ++counters.passed_on;
      forwarded.push_back({result.to, result.packet});
      break;
    case AgentOutcome::acknowledged:
      ++counters.report_acknowledged;
      break;
    case AgentOutcome::malformed:
      ++counters.drop_malformed;
      break;
    case AgentOutcome::unmatched_response:
      ++counters.drop_response;
      break;
    case AgentOutcome::unknown_sender:
      ++counters.drop_source;
      break;
    case AgentOutcome::wrong_m_key:
      ++counters.drop_m_key;
      break;
    case AgentOutcome::unreachable:
      ++counters.drop_destination;
      break;
    case AgentOutcome::wrong_gid:
      ++counters.drop_gid;
      break;
  }
}

void Subnet::State::receive_gmp(const MadPacket& packet, TimePoint now) {
  const Node& own = own_node();
  const auto index = manager.node_at(packet.slid);
  const Node* const sender = manager.node(index);
  const auto header = ipoib::wire::MadHeader::parse(packet.mad);
  namespace mgmt_class = ipoib::wire::mgmt_class;
  const bool is_performance = header && header->management_class == mgmt_class::kPerf;
  const bool is_cm = header && header->management_class == mgmt_class::kCommMgt;
  const bool is_for_any_node = is_performance || is_cm;
  const Node* const addressed = is_cm ? manager.node_of(packet) : nullptr;
  const bool is_from_network = addressed != nullptr && addressed->port.is_ethernet();
  const PKey own_pkey = find_pkey(addressed != nullptr ? addressed->port : own.port, packet.pkey);
  if (!is_from_network && (sender == nullptr || sender->port.state != PortState::active)) {
    ++counters.drop_source;
  } else if (!is_for_any_node &&
             (packet.dlid != own.port.lid || own.port.state != PortState::active)) {
    ++counters.drop_destination;
  } else if (!is_for_any_node && !admits_route(own.port, packet.grh)) {
    ++counters.drop_gid;
  } else if (packet.qkey != ipoib::wire::kGsiQKey) {
    ++counters.drop_qkey;
  } else if (!own_pkey.admits(packet.pkey)) {
    ++counters.drop_pkey;
  } else if (is_performance) {
    send(performance.handle(packet, manager));
  } else if (is_cm) {
    send(refuse_cm(packet, manager));
  } else if (!manager.has_own_sm() || !header || header->management_class != mgmt_class::kSubnAdm) {
    ++counters.drop_malformed;
  } else {
    administrator.receive(packet, *index, now, outgoing);
  }
}

TimePoint Subnet::next_deadline() const {
  if (state_->groups.has_events() || !state_->service_changes.empty()) return TimePoint();
  return std::min({state_->administrator.next_deadline(), state_->groups.grace_end(),
                   state_->agents.next_deadline()});
}

void Subnet::on_time(TimePoint now) {
  state_->administrator.on_time(now, state_->outgoing);
  if (state_->groups.grace_end() <= now) state_->groups.end_grace();
  state_->send_traps(now);
  state_->report_events(now);
}

void Subnet::State::send_traps(TimePoint now) {
  for (const auto& trap : agents.on_time(now)) {
    if (const auto to = manager.node_at(trap.dlid)) forwarded.push_back({*to, trap});
  }
}

std::vector<MadPacket> Subnet::take_outgoing() { return std::exchange(state_->outgoing, {}); }

std::vector<ForwardedMad> Subnet::take_forwarded_mads() {
  return std::exchange(state_->forwarded, {});
}

SubnetChanges Subnet::take_changes() {
  state_->route_groups();
  return SubnetChanges{state_->manager.take_changed(), state_->manager.switches().take_changes(),
                       std::exchange(state_->changed_groups, {})};
}

}  // namespace softib::subnet
