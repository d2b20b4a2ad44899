#include "tests/sim/world.hpp"

#include <algorithm>
#include <utility>

#include "softib/core/large_packet.hpp"
#include "wire/packet.hpp"

namespace ipoib::sim {

World::World(std::uint64_t seed, softib::subnet::SubnetConfig config)
    : random_(seed), subnet_(std::move(config)), on_node_(softib::kMaxNodes) {}

// --- Time ----------------------------------------------------------------------------------------

void World::at(TimePoint when, std::function<void()> act) {
  events_.push(Event{when, ++order_, std::move(act)});
}

void World::step() {
  // top() is const to protect the order; the element is popped after the move.
  Event next = std::move(const_cast<Event&>(events_.top()));
  events_.pop();
  now_ = next.when;
  next.act();
}

void World::run_for(Duration time) {
  const TimePoint end = now_ + time;
  while (!events_.empty() && events_.top().when <= end) step();
  now_ = end;
}

bool World::run_until(const std::function<bool()>& holds, Duration limit) {
  const TimePoint end = now_ + limit;
  while (!holds()) {
    if (events_.empty() || events_.top().when > end) {
      now_ = end;
      return false;
    }
    step();
  }
  return true;
}

TimePoint World::arrival() {
  std::uniform_int_distribution<Duration::rep> spread(0, faults.jitter.count());
  return now_ + faults.latency + Duration(spread(random_));
}

bool World::lost(double probability) {
  return probability > 0 && std::uniform_real_distribution<>(0, 1)(random_) < probability;
}

// --- Processes -----------------------------------------------------------------------------------

softib::NodeIndex World::add(Process& process, const std::string& hca) {
  const softib::NodeIndex node = subnet_.add_hca(hca).value();
  auto& member = members_[++last_id_];
  member = std::make_unique<Member>(Member{last_id_, node, &process, kNever});
  by_process_[&process] = member.get();
  on_node_[node].push_back(member.get());
  publish();
  return node;
}

void World::remove(Process& process) {
  Member* const member = find(process);
  if (member == nullptr) return;
  std::erase(on_node_[member->node], member);
  by_process_.erase(&process);
  members_.erase(member->id);
}

World::Member* World::find(ProcessId id) {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : found->second.get();
}

World::Member* World::find(const Process& process) {
  const auto found = by_process_.find(&process);
  return found == by_process_.end() ? nullptr : found->second;
}

/// Calls `act` with each process on these nodes, by node and then by age.
template <class Act>
void World::for_each_on(const softib::NodeSet& nodes, Act&& act) {
  if (nodes.none()) return;
  for (std::size_t node = 0; node < on_node_.size(); ++node) {
    if (!nodes.test(node)) continue;
    for (Member* const member : on_node_[node]) act(*member);
  }
}

void World::wake(Process& process, TimePoint when) {
  Member* const member = find(process);
  if (member == nullptr || when >= member->woken_at) return;
  member->woken_at = when;
  at(std::max(when, now_), [this, id = member->id, when] {
    Member* const woken = find(id);
    if (woken == nullptr || woken->woken_at != when) return;
    woken->woken_at = kNever;
    give(*woken);
  });
}

/// Runs the process, and schedules its next deadline.
void World::give(Member& member) {
  Process& process = *member.process;
  process.turn();
  wake(process, process.next_deadline());
}

// --- Packets -------------------------------------------------------------------------------------

void World::send(std::span<const softib::OutgoingPacket> batch) {
  for (const softib::OutgoingPacket& out : batch) {
    softib::for_each_packet(out, [&](ConstBytes bytes) { send(bytes, out.dlid); });
  }
}

void World::send(ConstBytes bytes, Lid dlid) {
  auto packet = std::make_shared<std::vector<std::uint8_t>>(bytes.begin(), bytes.end());
  ++packets_sent;
  if (tap && !tap(*packet)) return;
  // Packets to one destination keep their order.
  TimePoint& last = last_arrivals_[dlid];
  last = std::max(last, arrival());
  at(last, [this, packet = Packet(std::move(packet)), dlid] { deliver(packet, dlid); });
}

void World::deliver(Packet packet, Lid dlid) {
  constexpr std::size_t kSlidOffset = 6;  // of the LRH (IBA 7.7)
  const Lid slid(load_be<std::uint16_t>(packet->data() + kSlidOffset));
  const auto from = subnet_.node_at(slid).value_or(softib::kSubnetNode);
  softib::NodeSet nodes;
  if (is_multicast(dlid)) {
    nodes = subnet_.receivers(from, dlid);
  } else if (const auto node = subnet_.route(from, dlid)) {
    nodes.set(*node);
  }
  for_each_on(nodes, [&](Member& member) {
    if (lost(faults.packet_loss)) return;
    if (member.process->receive(*packet)) give(member);
  });
}

// --- Management ----------------------------------------------------------------------------------

void World::publish() {
  const softib::subnet::SubnetChanges changes = subnet_.take_changes();
  for_each_on(changes.nodes, [&](Member& member) {
    const softib::subnet::Node* const node = subnet_.node(member.node);
    if (node == nullptr) return;
    member.process->port_changed(node->port);
    give(member);
  });
  for (const softib::MadPacket& packet : subnet_.take_outgoing()) from_subnet(packet);
  const TimePoint due = subnet_.next_deadline();
  if (due >= subnet_woken_at_) return;
  subnet_woken_at_ = due;
  at(std::max(due, now_), [this] {
    subnet_woken_at_ = kNever;
    subnet_.on_time(now_);
    publish();
  });
}

void World::restart_sm() {
  (void)subnet_.restart_sm(now_);  // not with an external SM
  publish();
}

Result<void> World::send_mad(Process& from, const MadDestination& to, ConstBytes mad,
                             Duration timeout) {
  const Member* const member = find(from);
  const softib::subnet::Node* const node = subnet_.node(member->node);
  if (!to.global && node->port.grh_required) return Error{EINVAL, "the port requires a GRH"};
  ++mads_sent;
  softib::MadPacket packet;
  if (to.global) {
    packet.grh.emplace();
    packet.grh->hop_limit = to.global->hop_limit;
    packet.grh->sgid = node->port.gid();
    packet.grh->dgid = to.global->dgid;
  }
  packet.slid = node->port.lid;
  packet.dlid = to.lid;
  packet.sl = to.sl;
  packet.pkey = node->port.pkeys.at(to.pkey_index);
  packet.source = wire::kGsiQpn;
  packet.destination = to.qpn;
  packet.qkey = to.qkey;
  std::ranges::copy(mad, packet.mad.begin());
  if (timeout > Duration::zero()) {
    auto header = *wire::MadHeader::parse(mad);
    const auto low = static_cast<std::uint32_t>(header.transaction_id);
    header.transaction_id = std::uint64_t{member->id} << 32 | low;
    header.emit(packet.mad);
    await_response(member->id, packet, timeout);
  }
  if (faults.sa_drops_requests || lost(faults.mad_loss)) return {};
  at(arrival(), [this, packet] { at_sa(packet); });
  return {};
}

void World::await_response(ProcessId id, const softib::MadPacket& request, Duration timeout) {
  const auto low = static_cast<std::uint32_t>(wire::MadHeader::parse(request.mad)->transaction_id);
  outstanding_.insert(key_of(id, low));
  at(now_ + timeout, [this, id, low, request] {
    if (outstanding_.erase(key_of(id, low)) == 0) return;
    Member* const waits = find(id);
    if (waits == nullptr) return;
    waits->process->receive_mad(
        {.timed_out = true, .bytes = {request.mad.begin(), request.mad.end()}});
    give(*waits);
  });
}

/// The SA works on one MAD after the other.
void World::at_sa(const softib::MadPacket& packet) {
  if (faults.sa_service == Duration::zero()) return to_subnet(packet);
  const TimePoint begin = std::max(now_, sa_free_at_);
  if (begin - now_ >= faults.sa_service * static_cast<Duration::rep>(faults.sa_queue)) {
    ++sa_overruns;
    return;
  }
  sa_free_at_ = begin + faults.sa_service;
  at(sa_free_at_, [this, packet] { to_subnet(packet); });
}

void World::to_subnet(const softib::MadPacket& packet) {
  subnet_.receive(packet, now_);
  publish();
}

void World::from_subnet(softib::MadPacket packet) {
  if (lost(faults.mad_loss) || (mad_tap && !mad_tap(packet))) return;
  at(arrival() + faults.sa_delay, [this, packet] { to_process(packet); });
}

void World::inject_mad(const softib::MadPacket& packet) {
  at(now_, [this, packet] { to_process(packet); });
}

void World::to_process(const softib::MadPacket& packet) {
  const auto header = wire::MadHeader::parse(packet.mad);
  if (header->is_response()) return deliver_response(*header, packet);
  report(packet);
}

ReceivedMad World::received(const softib::MadPacket& packet) {
  ReceivedMad mad{.bytes = {packet.mad.begin(), packet.mad.end()},
                  .from = {packet.slid, packet.sl, 0}};
  if (packet.grh) {
    mad.from.global = GlobalRoute{.dgid = packet.grh->sgid, .hop_limit = packet.grh->hop_limit};
  }
  return mad;
}

const softib::PortAttributes& World::port_of(const Member& member) const {
  return subnet_.node(member.node)->port;
}

void World::deliver_response(const wire::MadHeader& header, const softib::MadPacket& packet) {
  const auto id = static_cast<ProcessId>(header.transaction_id >> 32);
  const auto low = static_cast<std::uint32_t>(header.transaction_id);
  Member* const requester = find(id);
  if (requester == nullptr || !softib::admits_route(port_of(*requester), packet.grh)) return;
  if (outstanding_.erase(key_of(id, low)) == 0) return;
  requester->process->receive_mad(received(packet));
  give(*requester);
}

World::Member* World::reports_to(softib::NodeIndex node) {
  const auto& members = on_node_[node];
  const auto taker =
      std::ranges::find_if(members, [](const Member* m) { return m->process->takes_reports(); });
  return taker == members.end() ? nullptr : *taker;
}

/// The only unsolicited MADs of an SA are reports.
void World::report(const softib::MadPacket& packet) {
  const auto node = subnet_.node_at(packet.dlid);
  Member* const taker = node ? reports_to(*node) : nullptr;
  if (taker == nullptr || !softib::admits_route(port_of(*taker), packet.grh)) return;
  taker->process->receive_mad(received(packet));
  give(*taker);
}

}  // namespace ipoib::sim
