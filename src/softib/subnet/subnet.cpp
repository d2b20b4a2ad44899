#include "softib/subnet/subnet.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "softib/subnet/cables.hpp"
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
  return ipoib::Error{EINVAL,
                      "softib-sm is the subnet manager's own port, which stays as it is: choose an "
                      "HCA of a program"};
}

/// Fails with EOPNOTSUPP if an external SM manages the subnet.
Result<void> require_own_sm(const SubnetManager& manager) {
  if (manager.has_own_sm()) return {};
  return ipoib::Error{
      EOPNOTSUPP, "an external subnet manager (--sm none) decides that: change its configuration"};
}
}  // namespace

struct Subnet::State final : LinkObserver {
  State(SubnetConfig config, SubnetSources sources)
      : manager(std::move(config)),
        performance(std::move(sources.counters), std::move(sources.cables)),
        agents(manager, std::move(sources.is_manager), std::move(sources.violations),
               std::move(sources.key_violations),
               [this](const Attachment& at) { return performance.counters(at, manager); }) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  SubnetManager manager;
  MulticastGroups groups;
  SubnetCounters counters;
  SubnetAdministrator administrator{manager, groups, counters};
  PerformanceAgents performance;
  SubnetManagementAgents agents;
  Cables cables{manager, *this};
  std::vector<MadPacket> outgoing;
  std::vector<ForwardedMad> forwarded;
  /// Ports that came into service (true) or went out of it, not yet reported.
  std::vector<std::pair<Gid, bool>> service_changes;
  /// The nodes whose port is active, and that the subnet's own SM reaches.
  NodeSet served;
  /// Groups whose members have changed since the last call of take_changes().
  std::bitset<kMaxGroups> changed_groups;

  [[nodiscard]] const Node& own_node() const;
  void adopt_groups(const SubnetSnapshot& before, TimePoint now);
  void route_groups();
  void ways_changed() override;
  void link_changed(SwitchIndex at) override { agents.link_changed(at); }
  void link_failed(const Attachment& at, LinkError error) override {
    agents.link_failed(at, error);
  }
  void create_permanent_groups();
  void add_service_change(const Gid& gid, bool in_service);
  void end_service(NodeIndex index, const Gid& gid);
  bool update_service(NodeIndex index);
  void find_services();
  void node_changed(NodeIndex index, PortState before) override;
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

/// Ends the memberships and subscriptions of a port that its SM no longer reaches.
void Subnet::State::end_service(NodeIndex index, const Gid& gid) {
  served.reset(index);
  groups.remove(index);
  administrator.remove(index);
  add_service_change(gid, false);
}

/// To be called after a change of the port of a node, or of the way to it. Returns whether it has
/// come into service.
bool Subnet::State::update_service(NodeIndex index) {
  const Node& node = *manager.node(index);
  const bool is_served = node.port.state == PortState::active && manager.is_reached(node);
  if (is_served == served[index]) return false;
  if (!is_served) {
    end_service(index, node.port.gid());
    return false;
  }
  served.set(index);
  add_service_change(node.port.gid(), true);
  return true;
}

/// Takes all ports as they are, without reports.
void Subnet::State::find_services() {
  for (NodeIndex i = 0; i < kMaxNodes; ++i) {
    const Node* const node = manager.node(i);
    const bool is_served =
        node != nullptr && node->port.state == PortState::active && manager.is_reached(*node);
    served.set(i, is_served);
  }
}

void Subnet::State::node_changed(NodeIndex index, PortState before) {
  const Node& node = *manager.node(index);
  if (node.port.state == before) return;
  agents.link_changed(node.attachment.switch_index);
  (void)update_service(index);
}

/// With an external SM there are no events: nobody has subscribed here, and no group is known.
void Subnet::State::report_events(TimePoint now) {
  namespace trap = ipoib::wire::trap;
  const Node& sm = own_node();
  ipoib::wire::Notice notice;
  notice.issuer_lid = sm.port.lid;
  notice.issuer_gid = sm.port.gid();
  for (const auto& [gid, is_served] : std::exchange(service_changes, {})) {
    notice.trap_number = is_served ? trap::kInService : trap::kOutOfService;
    notice.gid = gid;
    administrator.report(notice, now, outgoing);
  }
  for (const auto& event : groups.take_events()) {
    notice.trap_number = event.created ? trap::kGroupCreated : trap::kGroupDeleted;
    notice.gid = event.mgid;
    administrator.report(notice, now, outgoing);
  }
}

Subnet::Subnet(SubnetConfig config, SubnetSources sources)
    : state_(std::make_unique<State>(std::move(config), std::move(sources))) {
  state_->create_permanent_groups();
  state_->find_services();
}
Subnet::~Subnet() = default;

void Subnet::adopt(const SubnetSnapshot& before, TimePoint now) {
  State& s = *state_;
  // With an external SM, the switches keep their tables, so it does not notice the restart.
  s.manager.adopt(before);
  s.find_services();
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

/// Ports of a part of the subnet that the SM no longer reaches are out of service. When it reaches
/// them again, it knows nothing of what they had asked for.
void Subnet::State::ways_changed() {
  if (!manager.has_own_sm()) return;
  manager.reroute();
  for (NodeIndex i = 0; i < kMaxNodes; ++i) {
    if (manager.node(i) != nullptr && update_service(i)) manager.request_reregistration(i);
  }
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
  for (const auto each : state_->manager.ports_of_hca(*added)) {
    (void)state_->update_service(each);
    state_->agents.link_changed(state_->manager.node(each)->attachment.switch_index);
    state_->cables.check_port(each);
  }
  return added;
}

Result<void> Subnet::remove_hca(NodeIndex index) {
  if (index == kSubnetNode) return sm_port_is_fixed();
  std::map<NodeIndex, Node> ports;
  for (const auto each : ports_of_hca(index)) ports.emplace(each, *node(each));
  auto removed = state_->manager.remove(index);
  for (const auto& [each, port] : ports) {
    if (state_->served[each]) state_->end_service(each, port.port.gid());
    state_->agents.link_changed(port.attachment.switch_index);
    state_->performance.forget(each, port.attachment);
    state_->agents.forget(port.attachment);
  }
  return removed;
}

Result<void> Subnet::set_port_state(NodeIndex index, PortState state) {
  if (!state_->manager.has_own_sm() && state == PortState::armed) {
    return require_own_sm(state_->manager);
  }
  return state_->cables.set_port(index, state);
}

Result<void> Subnet::set_failed(NodeIndex index, bool failed) {
  if (index == kSubnetNode) return sm_port_is_fixed();
  std::map<NodeIndex, PortState> before;
  for (const auto each : ports_of_hca(index)) before.emplace(each, node(each)->port.state);
  auto set = state_->manager.set_failed(index, failed);
  for (const auto& [each, state] : before) {
    state_->node_changed(each, state);
    if (!failed) state_->cables.check_port(each);
  }
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

Result<void> Subnet::set_cable(const CableEnd& from, const std::optional<CableEnd>& to,
                               CableState state) {
  return state_->cables.set(from, to, state);
}

Result<void> Subnet::set_cable(const CableEnd& from, const std::optional<CableEnd>& to,
                               const CableSettings& settings) {
  return state_->cables.set(from, to, settings);
}

Result<void> Subnet::set_switch(std::string_view name, SwitchState state) {
  return state_->cables.set_switch(name, state);
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
  if (!is_out) return set;
  for (const auto port : ports_of_hca(index)) state_->groups.remove(port, pkey);
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
std::vector<NodeIndex> Subnet::ports_of_hca(NodeIndex index) const {
  if (state_->manager.node(index) == nullptr) return {};
  return state_->manager.ports_of_hca(index);
}
Result<NodeIndex> Subnet::find_port(NodeIndex hca, std::uint8_t number) const {
  const auto ports = ports_of_hca(hca);
  if (number == 0 && ports.size() == 1) return ports[0];
  const std::string name = node(hca)->name;
  if (number == 0) {
    return ipoib::Error{EINVAL, "the HCA '" + name + "' has " + std::to_string(ports.size()) +
                                    " ports: name one, as in " + name + "[1]"};
  }
  for (const auto each : ports) {
    if (node(each)->port.number == number) return each;
  }
  return ipoib::Error{EINVAL,
                      "the HCA '" + name + "' has no cable at its port " + std::to_string(number)};
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
