#include "tests/sim/day.hpp"

#include <algorithm>
#include <utility>

#include "sa/request.hpp"
#include "wire/mgid.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::sim {
namespace {

using namespace std::chrono_literals;
using softib::subnet::Membership;

/// How often each fault is chosen, in the order of Fault. Those of the whole subnet are rare.
constexpr std::array<unsigned, kFaults> kWeights{1, 1, 1, 1, 1, 2, 10, 10, 8, 8, 8, 8, 8};
/// For a check. An SA that was silent for two minutes makes joins pause for up to 20 s, and each
/// request takes up to 4 attempts.
constexpr Duration kUntilUp = 2min;
constexpr Duration kUntilExchanged = 2min;
/// Whole subnet: the groups of all links, after a lost leave or join.
constexpr Duration kUntilJoined = 3min;

/// An operator creates the broadcast group, so that its parameters can change.
DayOptions without_broadcast_group(DayOptions options) {
  options.subnet.partitions = 1;
  options.subnet.broadcast_group = false;
  return options;
}

}  // namespace

std::string_view name(Fault fault) {
  constexpr std::array<std::string_view, kFaults> kNames{"SM restarts",
                                                         "SM moves to another LID",
                                                         "new parameters of the broadcast group",
                                                         "SA silent",
                                                         "SA slow",
                                                         "packets and MADs lost",
                                                         "port down",
                                                         "another LID",
                                                         "P_Key removed",
                                                         "P_Key at other index",
                                                         "process ends",
                                                         "process killed",
                                                         "neighbours flushed"};
  return kNames[static_cast<std::size_t>(fault)];
}

Day::Day(const DayOptions& options)
    : Scale(without_broadcast_group(options).subnet), day_(without_broadcast_group(options)) {
  operator_ = world.subnet().add_hca("operator").value();
  parameters_.qkey = QKey(0x0b1b);
  parameters_.mtu = 4;
  parameters_.rate = 3;
  restart_sm();
}

// --- The subnet ----------------------------------------------------------------------------------

/// As an operator would, with the current parameters.
void Day::create_broadcast_group() {
  const softib::PortAttributes port = world.subnet().node(operator_)->port;
  wire::McMemberRecord record = parameters_;
  record.mgid = wire::broadcast_gid(pkey_of(0), wire::kLinkLocalScope);
  record.port_gid = port.gid();
  record.pkey = pkey_of(0);
  record.join_state = wire::McMemberRecord::kFullMember;
  softib::MadPacket packet;
  packet.slid = port.lid;
  packet.dlid = port.sm_lid;
  packet.source = packet.destination = wire::kGsiQpn;
  packet.qkey = wire::kGsiQKey;
  std::ranges::copy(sa::request_mad(wire::create_query(record), 7), packet.mad.begin());
  world.subnet().receive(packet, world.now());
}

void Day::restart_sm() {
  world.subnet().restart_sm(world.now()).value();
  create_broadcast_group();
  world.publish();
}

// --- Faults --------------------------------------------------------------------------------------

void Day::cause(Fault fault) {
  ++counts_[static_cast<std::size_t>(fault)];
  if (fault < Fault::port_down) return cause_for_all(fault);
  cause_for(fault, static_cast<std::uint32_t>(random(size())));
}

void Day::cause_for_all(Fault fault) {
  const auto lid = static_cast<std::uint16_t>(size() + 100 + random(100));
  switch (fault) {
    case Fault::sm_restart:
      return restart_sm();
    case Fault::sm_moves:
      // Another HCA may have that LID; then the SM keeps its own.
      (void)world.subnet().set_lid(*world.subnet().find(softib::subnet::kSmName), Lid(lid));
      return world.publish();
    case Fault::new_parameters:
      parameters_.qkey = QKey(static_cast<std::uint32_t>(random(0xffff)) + 1);
      parameters_.sl = ServiceLevel(static_cast<std::uint8_t>(random(4)));
      parameters_.mtu = static_cast<std::uint8_t>(4 + random(2));
      return restart_sm();
    case Fault::sa_silent:
      world.faults.sa_drops_requests = true;
      return heal_after(random(5s, 2min), [this] { world.faults.sa_drops_requests = false; });
    case Fault::sa_slow:
      world.faults.sa_delay = random(100ms, 2s);
      return heal_after(random(5s, 1min), [this] { world.faults.sa_delay = options_.sa_delay; });
    default:
      world.faults.packet_loss = world.faults.mad_loss = static_cast<double>(1 + random(30)) / 100;
      return heal_after(random(5s, 1min),
                        [this] { world.faults.packet_loss = world.faults.mad_loss = 0; });
  }
}

void Day::cause_for(Fault fault, std::uint32_t link) {
  softib::subnet::Subnet& subnet = world.subnet();
  const softib::NodeIndex node = *subnet.find(name_of(link));
  switch (fault) {
    case Fault::port_down:
      subnet.set_port_state(node, softib::PortState::down).value();
      heal_after(random(10ms, 1min), [this, node] {
        world.subnet().set_port_state(node, softib::PortState::active).value();
        world.publish();
      });
      break;
    case Fault::new_lid:
      // It may be in use; then the port keeps its own.
      (void)subnet.set_lid(node, Lid(static_cast<std::uint16_t>(2 + random(size() + 98))));
      break;
    case Fault::pkey_removed:
      subnet.set_membership(node, pkey_of(link), Membership::none).value();
      heal_after(random(10ms, 1min), [this, node] {
        world.subnet().set_membership(node, pkey_of(0), Membership::full).value();
        world.publish();
      });
      break;
    case Fault::pkey_moved:
      // If it has just been removed, there is nothing to move.
      (void)subnet.move_pkey(node, pkey_of(link), 1 + random(softib::kPKeyTableSize - 1));
      break;
    case Fault::process_ends:
    case Fault::process_killed:
      return restart_process(link, fault == Fault::process_ends);
    default:
      if (Host* const one = host(link)) (void)one->link().flush();
      return;
  }
  world.publish();
}

void Day::restart_process(std::uint32_t link, bool in_order) {
  if (host(link) == nullptr) return;  // it is being restarted
  end(link, in_order);
  heal_after(random(10ms, 5min), [this, link] { start(link); });
}

void Day::heal_after(Duration time, std::function<void()> heal) {
  heals_.emplace(world.now() + time, std::move(heal));
}

void Day::heal_all() {
  for (const auto& [when, heal] : std::exchange(heals_, {})) heal();
}

// --- The day -------------------------------------------------------------------------------------

void Day::run(const std::function<void()>& progress) {
  boot(10s);
  choose_pairs(day_.peers);
  begin_ = world.now();
  const TimePoint end = begin_ + day_.time;
  check();
  while (world.now() < end && failures_.empty()) {
    run_until_check(std::min(world.now() + day_.between_checks, end));
    heal_all();
    check();
    progress();
  }
}

void Day::run_until_check(TimePoint end) {
  const unsigned all = [] {
    unsigned sum = 0;
    for (const unsigned weight : kWeights) sum += weight;
    return sum;
  }();
  TimePoint next_fault = world.now();
  while (world.now() < end) {
    world.run_for(1s);
    send_due_packets();
    while (!heals_.empty() && heals_.begin()->first <= world.now()) {
      const auto heal = heals_.extract(heals_.begin());
      heal.mapped()();
    }
    if (world.now() < next_fault) continue;
    next_fault = world.now() + random(Duration::zero(), 2 * day_.between_faults);
    auto drawn = random(all);
    std::size_t fault = 0;
    while (drawn >= kWeights[fault]) drawn -= kWeights[fault++];
    cause(static_cast<Fault>(fault));
  }
}

/// Those of one second.
void Day::send_due_packets() {
  const auto due = static_cast<std::size_t>(static_cast<Duration::rep>(pairs().size()) * 1s /
                                            day_.between_packets);
  for (std::size_t i = 0; i <= due; ++i) {
    send(pairs()[next_pair_++ % pairs().size()]);
    ++packets_;
  }
}

// --- Checks --------------------------------------------------------------------------------------

void Day::check() {
  ++checks_;
  const TimePoint healed = world.now();
  if (!run_until_up(size(), kUntilUp)) {
    fail(std::to_string(size() - up()) + " links are not up");
    for (std::uint32_t link = 0; link < size(); ++link) {
      if (!host(link)->is_up()) fail(name_of(link) + ": " + host(link)->link().waiting_for());
    }
    return;
  }
  longest_until_up_ = std::max(longest_until_up_, world.now() - healed);
  Duration took{};
  for (const Pair& pair : exchange(kUntilExchanged, took)) {
    fail(name_of(pair.from) + " does not reach " + name_of(pair.to));
  }
  longest_exchange_ = std::max(longest_exchange_, took);
  check_memberships();
}

/// All links are receivers of the broadcast group and of the all-nodes groups, with the parameters
/// of the broadcast group; nothing else is left over.
void Day::check_memberships() {
  const auto complete = [this](const softib::subnet::GroupView& group) {
    const bool is_broadcast = group.mgid == wire::broadcast_gid(pkey_of(0), wire::kLinkLocalScope);
    const auto full = std::ranges::count_if(group.members, [](const auto& member) {
      return (member.join_state & wire::McMemberRecord::kFullMember) != 0;
    });
    return full == std::ptrdiff_t{size()} + (is_broadcast ? 1 : 0) &&
           group.qkey == parameters_.qkey && group.mtu == parameters_.mtu &&
           group.sl == parameters_.sl;
  };
  const auto all_complete = [&] {
    std::size_t of_link = 0;
    for (const softib::subnet::GroupView& group : world.subnet().groups()) {
      if (!group.pkey.same_partition(pkey_of(0))) continue;
      if (!complete(group)) return false;
      ++of_link;
    }
    return of_link == 3;
  };
  for (const TimePoint end = world.now() + kUntilJoined; !all_complete();) {
    if (world.now() >= end) return fail("groups lack members, or have other parameters");
    world.run_for(1s);
  }
}

void Day::fail(const std::string& what) {
  const auto at = std::chrono::duration_cast<std::chrono::seconds>(world.now() - begin_);
  failures_.push_back("after " + std::to_string(at.count()) + " s: " + what);
}

}  // namespace ipoib::sim
