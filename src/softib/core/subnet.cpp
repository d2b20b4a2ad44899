#include "softib/core/subnet.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "softib/core/multicast_groups.hpp"
#include "softib/core/sa_members.hpp"
#include "softib/core/sma.hpp"
#include "softib/core/subnet_administrator.hpp"
#include "softib/core/subnet_manager.hpp"

namespace softib {

using ipoib::Result;
using ipoib::TimePoint;

namespace {
constexpr Qpn kSmiQpn{0};

ipoib::Error no_change_of_sm() {
  return ipoib::Error{EINVAL, "node 0 is the subnet manager's own port"};
}
}  // namespace

struct Subnet::State {
  State(SubnetConfig config, PerformanceAgents::Source counted)
      : manager(std::move(config)), performance(std::move(counted)) {}

  SubnetManager manager;
  MulticastGroups groups;
  SubnetCounters counters;
  SubnetAdministrator administrator{manager, groups, counters};
  PerformanceAgents performance;
  std::vector<MadPacket> outgoing;
  /// Nodes that came into service, or went out of it, and have not been reported.
  std::vector<std::pair<Gid, bool>> services;

  void make_permanent_groups();
  void put_in_service(const Gid& gid, bool is_in);
  void take_out(NodeIndex index, const Gid& gid);
  void follow_state(NodeIndex index, PortState before);
  void report_events(TimePoint now);
  void receive_gmp(const MadPacket& packet, TimePoint now);
  void receive_smp(const MadPacket& packet);
  void send(const AgentAnswer& answer);
};

void Subnet::State::make_permanent_groups() {
  for (const auto& partition : manager.partitions()) {
    if (!partition.broadcast_group) continue;
    const auto record = broadcast_group(partition, manager.mtu());
    if (groups.find(record.mgid) == nullptr) groups.create(record, true);
  }
}

void Subnet::State::put_in_service(const Gid& gid, bool is_in) {
  if (administrator.has_subscribers()) services.emplace_back(gid, is_in);
}

/// The port is gone for everybody: memberships and subscriptions end.
void Subnet::State::take_out(NodeIndex index, const Gid& gid) {
  groups.drop(index);
  administrator.forget(index);
  put_in_service(gid, false);
}

void Subnet::State::follow_state(NodeIndex index, PortState before) {
  const PortAttributes& port = manager.node(index)->port;
  if (port.state == before) return;
  if (port.state == PortState::active) put_in_service(port.gid(), true);
  if (before == PortState::active) take_out(index, port.gid());
}

void Subnet::State::report_events(TimePoint now) {
  namespace trap = ipoib::wire::trap;
  const Node& sm = *manager.node(SubnetManager::kSmNode);
  ipoib::wire::Notice notice;
  notice.issuer_lid = sm.port.lid;
  notice.issuer_gid = sm.port.gid();
  for (const auto& [gid, is_in] : std::exchange(services, {})) {
    notice.trap_number = is_in ? trap::kInService : trap::kOutOfService;
    notice.gid = gid;
    administrator.report(notice, now, outgoing);
  }
  for (const auto& event : groups.take_events()) {
    notice.trap_number = event.created ? trap::kGroupCreated : trap::kGroupDeleted;
    notice.gid = event.mgid;
    administrator.report(notice, now, outgoing);
  }
}

Subnet::Subnet(SubnetConfig config, PerformanceAgents::Source counters)
    : state_(std::make_unique<State>(std::move(config), std::move(counters))) {
  state_->make_permanent_groups();
}
Subnet::~Subnet() = default;

void Subnet::adopt(const SubnetSnapshot& before, TimePoint now) {
  State& s = *state_;
  s.manager.adopt(before.nodes);
  s.manager.ask_to_reregister();
  NodeSet alive;
  for (const auto& entry : before.nodes) {
    const Node* node = s.manager.node(entry.index);
    if (node != nullptr && node->port.state == PortState::active) alive.set(entry.index);
  }
  s.groups = MulticastGroups();
  s.groups.adopt(before.groups, alive, now + kRejoinGrace);
  s.make_permanent_groups();
}

SubnetSnapshot Subnet::snapshot() const {
  SubnetSnapshot snapshot;
  for (std::size_t i = 0; i < kMaxNodes; ++i) {
    const auto index = static_cast<NodeIndex>(i);
    if (const Node* found = state_->manager.node(index)) snapshot.nodes.push_back({index, *found});
  }
  for (std::size_t i = 0; i < kMaxGroups; ++i) {
    const GroupForwarding forwarding = state_->groups.forwarding(i);
    if (!forwarding.mgid.is_zero()) snapshot.groups.push_back({group_lid(i), forwarding});
  }
  return snapshot;
}

Result<NodeIndex> Subnet::add_hca(std::string_view name) {
  const bool is_new = !state_->manager.find(name);
  auto added = state_->manager.add(name);
  if (added && is_new) state_->put_in_service(state_->manager.node(*added)->port.gid(), true);
  return added;
}

Result<void> Subnet::remove_hca(NodeIndex index) {
  if (index == SubnetManager::kSmNode) return no_change_of_sm();
  const Node* found = node(index);
  const Gid gid = found != nullptr ? found->port.gid() : Gid();
  auto removed = state_->manager.remove(index);
  if (removed) state_->take_out(index, gid);
  return removed;
}

Result<void> Subnet::set_port_state(NodeIndex index, PortState state) {
  const Node* found = node(index);
  const PortState before = found != nullptr ? found->port.state : state;
  auto set = state_->manager.set_port_state(index, state);
  if (set) state_->follow_state(index, before);
  return set;
}

Result<void> Subnet::set_failed(NodeIndex index, bool failed) {
  if (index == SubnetManager::kSmNode) return no_change_of_sm();
  const Node* found = node(index);
  const PortState before = found != nullptr ? found->port.state : PortState::down;
  auto set = state_->manager.set_failed(index, failed);
  if (set) state_->follow_state(index, before);
  return set;
}

Result<void> Subnet::set_lid(NodeIndex index, Lid lid) {
  return state_->manager.set_lid(index, lid);
}

Result<void> Subnet::set_mtu(NodeIndex index, std::uint8_t mtu) {
  return state_->manager.set_mtu(index, mtu);
}

Result<void> Subnet::set_membership(NodeIndex index, PKey pkey, Membership as) {
  auto set = state_->manager.set_membership(index, pkey, as);
  if (!set) return set;
  const bool is_out = !find_pkey(node(index)->port, pkey).is_valid();
  if (is_out) state_->groups.drop(index, pkey);
  return set;
}

Result<void> Subnet::move_pkey(NodeIndex index, PKey pkey, std::size_t place) {
  return state_->manager.move_pkey(index, pkey, place);
}

void Subnet::restart_sm(TimePoint now) {
  state_->administrator.restart();
  state_->groups.restart(now + kRejoinGrace);
  state_->services.clear();
  state_->manager.ask_to_reregister();
}

std::optional<NodeIndex> Subnet::find(std::string_view name) const {
  return state_->manager.find(name);
}
const Node* Subnet::node(NodeIndex index) const { return state_->manager.node(index); }
std::optional<NodeIndex> Subnet::node_at(Lid lid) const { return state_->manager.node_at(lid); }
const std::vector<Partition>& Subnet::partitions() const { return state_->manager.partitions(); }
const SubnetCounters& Subnet::counters() const { return state_->counters; }

GroupForwarding Subnet::forwarding(Lid mlid) const {
  const bool is_known = ipoib::is_multicast(mlid) && group_index(mlid) < kMaxGroups;
  return is_known ? state_->groups.forwarding(group_index(mlid)) : GroupForwarding{};
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
  if (packet.destination == kSmiQpn) {
    state_->receive_smp(packet);
  } else {
    state_->receive_gmp(packet, now);
  }
  state_->report_events(now);
}

void Subnet::State::receive_smp(const MadPacket& packet) {
  const auto sender = manager.node_at(packet.slid);
  if (!sender) {
    ++counters.drop_source;
    return;
  }
  send(answer_smp(packet, *sender, manager));
}

void Subnet::State::send(const AgentAnswer& answer) {
  switch (answer.verdict) {
    case AgentVerdict::answered:
      ++counters.answered;
      if (answer.status != 0) ++counters.refused;
      outgoing.push_back(answer.packet);
      break;
    case AgentVerdict::malformed:
      ++counters.drop_malformed;
      break;
    case AgentVerdict::response:
      ++counters.drop_response;
      break;
    case AgentVerdict::unreachable:
      ++counters.drop_destination;
      break;
  }
}

void Subnet::State::receive_gmp(const MadPacket& packet, TimePoint now) {
  const Node& sm = *manager.node(SubnetManager::kSmNode);
  const auto sender = manager.node_at(packet.slid);
  const auto header = ipoib::wire::MadHeader::parse(packet.mad);
  const bool is_performance = header && header->management_class == ipoib::wire::mgmt_class::kPerf;
  const PKey ours = find_pkey(sm.port, packet.pkey);
  if (!sender || manager.node(*sender)->port.state != PortState::active) {
    ++counters.drop_source;
  } else if (!is_performance &&
             (packet.dlid != sm.port.lid || sm.port.state != PortState::active)) {
    ++counters.drop_destination;
  } else if (packet.qkey != ipoib::wire::kGsiQKey) {
    ++counters.drop_qkey;
  } else if (!ours.admits(packet.pkey)) {
    ++counters.drop_pkey;
  } else if (is_performance) {
    send(performance.answer(packet, manager));
  } else if (!header || header->management_class != ipoib::wire::mgmt_class::kSubnAdm) {
    ++counters.drop_malformed;
  } else {
    administrator.receive(packet, *sender, now, outgoing);
  }
}

TimePoint Subnet::next_deadline() const {
  if (state_->groups.has_events() || !state_->services.empty()) return TimePoint();
  return std::min(state_->administrator.next_deadline(), state_->groups.grace_end());
}

void Subnet::on_time(TimePoint now) {
  state_->administrator.on_time(now, state_->outgoing);
  if (state_->groups.grace_end() <= now) state_->groups.end_grace();
  state_->report_events(now);
}

std::vector<MadPacket> Subnet::take_outgoing() { return std::exchange(state_->outgoing, {}); }

SubnetChanges Subnet::take_changes() {
  return SubnetChanges{state_->manager.take_changed(), state_->manager.take_changed_lids(),
                       state_->groups.take_changed()};
}

}  // namespace softib
