#include "daemon/pump/pump.hpp"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <array>

#include "daemon/pump/captures.hpp"
#include "daemon/pump/pools.hpp"
#include "tests/on_link.hpp"
#include "tests/unit/daemon/pump/fake_ports.hpp"
#include "tests/unit/link/object_fixture.hpp"
#include "wire/encapsulation.hpp"
#include "wire/mgid.hpp"
#include "wire/packet.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;
using link::LinkState;
using ::testing::ElementsAre;

class PumpTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kMaxIpMtu = 1500;

  PumpTest() {
    HostView view;
    view.addresses = {{Ipv4Address(0x0a2c0001), 24}};
    view.tables = test::all_on_link();
    pump.link().on_host_changed(view, now);
    follower.add(pump.link());
  }
  ~PumpTest() override {
    pump.link().shut_down(now);
    pump.drain(now);
  }

  /// All groups exist, but only with link-local scope.
  [[nodiscard]] static wire::SaResult result_of(const Gid& mgid) {
    if (wire::scope_of(mgid) == wire::kLinkLocalScope) return link::group_record(mgid);
    return wire::SaFailure(wire::SaStatus::insufficient_components);
  }
  /// Makes the port active; the SA grants all joins of groups that exist.
  void bring_up() {
    port.active = port.sm_known = true;
    port.lid = Lid(4);
    port.gid = link::port_gid(1);
    port.pkey_index = 0;
    pump.link().on_port(port, now);
    pump.drain(now);
    grant_joins();
    while (pump.turn(now)) {  // announcements
    }
    queue_pair.sent.clear();
  }
  void grant_joins() {
    while (!pump.to_control().empty()) {
      for (const ToControl& message : std::exchange(pump.to_control(), {})) {
        const auto* const request = std::get_if<wire::SaRequest>(&message);
        const auto* const join =
            request != nullptr ? std::get_if<wire::JoinQuery>(&request->query) : nullptr;
        if (join == nullptr) continue;
        pump.link().on_response({request->id, result_of(join->record.mgid)}, now);
        pump.drain(now);
      }
    }
  }
  /// Broadcasts of the host, which need no neighbour.
  void broadcast(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::uint8_t> packet(84);
      ByteWriter out(packet);
      out.u8(0x45);
      out.u8(0);
      out.u16(84);
      std::ranges::copy(Ipv4Address(0x0a2c0001).bytes(), packet.begin() + 12);
      std::ranges::copy(Ipv4Address(0x0a2c00ff).bytes(), packet.begin() + 16);
      tun.to_fabric.push_back(std::move(packet));
    }
  }
  /// An empty packet of a peer; one of IP is valid.
  [[nodiscard]] Incoming datagram(wire::EtherType type) {
    Incoming incoming;
    incoming.frame = frames.take();
    incoming.frame.window(0, wire::kEncapsulationSize + 40);
    std::ranges::fill(incoming.frame.bytes(), std::uint8_t{0});
    wire::emit_encapsulation(type, incoming.frame.bytes().data());
    incoming.frame.bytes()[wire::kEncapsulationSize] = type == wire::EtherType::ipv6 ? 0x60 : 0x45;
    incoming.frame.bytes()[wire::kEncapsulationSize + 3] = 40;
    incoming.source_lid = Lid(7);
    incoming.source_qpn = Qpn(0x22);
    return incoming;
  }
  void arrive(Incoming&& incoming) { queue_pair.arrived.push_back(std::move(incoming)); }
  /// Runs turns while there is work.
  void run() {
    for (int turns = 0; pump.turn(now); ++turns) ASSERT_LT(turns, 1000) << "always busy";
  }

  TimePoint now{1000s};
  FramePool frames{512, 2048};  // first, since the others hold frames
  FakeQueuePair queue_pair;
  FakeTun tun;
  TraceRing trace{"test"};
  FakeRoutes* routes = new FakeRoutes;
  RouteFollower follower{std::unique_ptr<linux::RouteSource>(routes)};
  link::PortStatus port;
  Pump pump{{.link = {}, .max_ip_mtu = kMaxIpMtu, .seed = 1, .hash_key = {1, 2}},
            pump_dependencies(frames, tun, queue_pair, follower, trace)};
};

/// A change that is announced before a packet is read applies to the packet.
TEST_F(PumpTest, ReadsAnnouncedRoutesBetweenReadingAndSendingPackets) {
  bring_up();
  bool was_read = false;
  routes->on_read = [&] {
    was_read |= tun.to_fabric.empty();
    EXPECT_TRUE(queue_pair.sent.empty());
  };
  broadcast(1);
  EXPECT_TRUE(pump.turn(now));
  EXPECT_TRUE(was_read);
  EXPECT_EQ(queue_pair.sent.size(), 1U);
  const auto reads = routes->reads;
  EXPECT_FALSE(pump.turn(now));
  EXPECT_EQ(routes->reads, reads) << "there are no packets";
}

TEST_F(PumpTest, MovesPacketsOfTheHost) {
  bring_up();
  broadcast(3);
  run();
  EXPECT_EQ(queue_pair.sent.size(), 3U);
  EXPECT_TRUE(tun.carrier);
}

TEST_F(PumpTest, AHeldPumpPreparesItsLinkAndLeavesTheTunAlone) {
  pump.set_mode(PumpMode::held, now);
  bring_up();
  EXPECT_EQ(pump.link().state(), LinkState::up);
  EXPECT_EQ(queue_pair.attached.size(), 3U) << "the broadcast and all-nodes groups";
  EXPECT_FALSE(tun.carrier);
  EXPECT_EQ(tun.mtu, 0U);
  broadcast(1);
  arrive(datagram(wire::EtherType::ipv4));
  run();
  EXPECT_THAT(tun.limits, ElementsAre()) << "the other daemon reads it";
  EXPECT_TRUE(tun.from_fabric.empty());
  EXPECT_TRUE(queue_pair.sent.empty());
}

TEST_F(PumpTest, AHeldPumpAnnouncesNothing) {
  pump.set_mode(PumpMode::held, now);
  port.active = port.sm_known = true;
  port.lid = Lid(4);
  port.gid = link::port_gid(1);
  port.pkey_index = 0;
  pump.link().on_port(port, now);
  pump.drain(now);
  grant_joins();
  for (int i = 0; i < 10; ++i) {
    now += 1s;
    run();
  }
  EXPECT_TRUE(queue_pair.sent.empty());
  EXPECT_TRUE(pump.link().sends().empty());
}

TEST_F(PumpTest, APumpThatBecomesActiveSetsAndAnnouncesEverything) {
  pump.set_mode(PumpMode::held, now);
  tun.mtu = 77;
  pump.set_mode(PumpMode::active, now);
  EXPECT_EQ(tun.mtu, 77U) << "the link has none yet";
  pump.set_mode(PumpMode::held, now);
  bring_up();
  now += 10s;
  run();
  pump.set_mode(PumpMode::active, now);
  EXPECT_TRUE(tun.carrier);
  EXPECT_EQ(tun.mtu, kMaxIpMtu);
  run();
  ASSERT_EQ(queue_pair.sent.size(), 1U);
  EXPECT_EQ(wire::parse_encapsulation(queue_pair.sent[0].bytes()), wire::EtherType::arp);
  broadcast(1);
  arrive(datagram(wire::EtherType::ipv4));
  run();
  EXPECT_EQ(queue_pair.sent.size(), 2U);
  EXPECT_EQ(tun.from_fabric.size(), 1U);
}

TEST_F(PumpTest, APumpThatIsRetiredAnnouncesNothing) {
  bring_up();
  now += 10s;
  run();
  queue_pair.sent.clear();
  tun.mtu = 77;
  for (const auto mode : {PumpMode::held, PumpMode::retired, PumpMode::standby}) {
    pump.set_mode(mode, now);
    run();
    EXPECT_EQ(tun.mtu, 77U);
    EXPECT_TRUE(queue_pair.sent.empty());
  }
}

TEST_F(PumpTest, AHeldPumpThatLosesItsPortTakesTheCarrierAwayLater) {
  pump.set_mode(PumpMode::held, now);
  bring_up();
  tun.carrier = true;  // by the other daemon
  port.active = false;
  pump.link().on_port(port, now);
  pump.drain(now);
  EXPECT_TRUE(tun.carrier);
  pump.set_mode(PumpMode::active, now);
  EXPECT_FALSE(tun.carrier);
}

TEST_F(PumpTest, ARetiredPumpPassesOnOnlyUnicastPackets) {
  bring_up();
  pump.set_mode(PumpMode::retired, now);
  arrive(datagram(wire::EtherType::ipv4));
  arrive(datagram(wire::EtherType::ipv6));
  auto request = datagram(wire::EtherType::arp);
  wire::Arp message;
  message.operation = wire::ArpOperation::request;
  message.sender_hardware = link::hardware(0x22, 2);
  message.sender_protocol = Ipv4Address(0x0a2c0002);
  message.target_protocol = Ipv4Address(0x0a2c0001);
  request.frame.window(0, wire::kEncapsulationSize + wire::Arp::kSize);
  message.emit(request.frame.bytes().subspan(wire::kEncapsulationSize));
  arrive(std::move(request));
  auto multicast = datagram(wire::EtherType::ipv4);
  multicast.has_grh = true;
  multicast.destination_gid = wire::broadcast_gid(kDefaultPKey);
  arrive(std::move(multicast));
  tun.limits.clear();
  broadcast(1);
  run();
  EXPECT_EQ(tun.from_fabric.size(), 2U);
  EXPECT_THAT(tun.limits, ElementsAre());
  EXPECT_TRUE(queue_pair.sent.empty());
  EXPECT_TRUE(pump.to_control().empty()) << "no path for a reply to ARP is requested";
}

TEST_F(PumpTest, ARetiredPumpSendsNothingByItself) {
  bring_up();
  EXPECT_NE(pump.next_deadline(), kNever) << "the second announcement";
  pump.set_mode(PumpMode::retired, now);
  EXPECT_EQ(pump.next_deadline(), kNever);
  now += 10s;
  run();
  EXPECT_TRUE(queue_pair.sent.empty());
}

TEST_F(PumpTest, ARetiredPumpKeepsTheCarrierAtItsEnd) {
  bring_up();
  pump.set_mode(PumpMode::retired, now);
  pump.link().shut_down(now);
  pump.drain(now);
  EXPECT_TRUE(tun.carrier);
  EXPECT_TRUE(queue_pair.attached.empty());
}

TEST_F(PumpTest, ARetiredPumpCanServeAgain) {
  bring_up();
  now += 10s;
  run();
  queue_pair.sent.clear();
  pump.set_mode(PumpMode::retired, now);
  pump.set_mode(PumpMode::active, now);
  run();
  EXPECT_EQ(queue_pair.sent.size(), 1U) << "peers may know another queue pair";
  broadcast(1);
  run();
  EXPECT_EQ(queue_pair.sent.size(), 2U);
}

TEST_F(PumpTest, FullSendQueueStopsReading) {
  bring_up();
  broadcast(10);
  queue_pair.room = 1;
  run();
  const auto waiting = pump.link().sends().size();
  EXPECT_EQ(queue_pair.sent.size(), 1U);
  EXPECT_GT(waiting, 0U);
  const auto unread = tun.to_fabric.size();
  EXPECT_EQ(unread, 10 - 1 - waiting);
  tun.limits.clear();
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(pump.turn(now));
  EXPECT_THAT(tun.limits, ElementsAre()) << "the TUN was read";
  EXPECT_EQ(tun.to_fabric.size(), unread);
}

TEST_F(PumpTest, RoomInTheSendQueueIsWorkSoThatTheTunIsReadAgain) {
  bring_up();
  broadcast(10);
  queue_pair.room = 1;
  run();
  queue_pair.room = 100;
  EXPECT_TRUE(pump.from_fabric(now)) << "the loop may sleep after this, although the TUN has more";
  EXPECT_EQ(pump.link().sends().size(), 0U);
  run();
  EXPECT_EQ(queue_pair.sent.size(), 10U);
  EXPECT_FALSE(pump.from_fabric(now));
}

TEST_F(PumpTest, ReadsTwiceTheLastBatchUpToTheLimit) {
  bring_up();
  tun.limits.clear();
  broadcast(2 * kBatch + 1 + 2 + 4);
  run();
  EXPECT_THAT(tun.limits, ElementsAre(1, 2, 4, 8, 16, 32, 64, kBatch, kBatch, 16));
  (void)pump.turn(now);
  EXPECT_EQ(tun.limits.back(), 1U) << "there was nothing";
}

TEST_F(PumpTest, ReadsOnAfterFramesOfVlans) {
  bring_up();
  tun.passed_on = 2;
  EXPECT_TRUE(pump.turn(now)) << "there may be more";
  EXPECT_TRUE(pump.turn(now));
  EXPECT_FALSE(pump.turn(now));
}

TEST_F(PumpTest, ExpiredTimerIsWorkSinceItMayReleaseFrames) {
  port.active = true;
  bring_up();
  run();
  ASSERT_NE(pump.link().next_deadline(), kNever);
  now = pump.link().next_deadline();
  EXPECT_TRUE(pump.turn(now));
}

TEST_F(PumpTest, SetsTheSmallerMtu) {
  bring_up();
  EXPECT_EQ(tun.mtu, kMaxIpMtu) << "the group allows 2044";
}

TEST_F(PumpTest, RefusedConfigurationIsRetriedAfterAGrowingPause) {
  queue_pair.refuses_attributes = true;
  bring_up();
  EXPECT_FALSE(tun.carrier);
  EXPECT_EQ(pump.link().state(), LinkState::joining);
  std::vector<Duration> pauses;
  for (int i = 0; i < 6; ++i) {
    const auto before = now;
    now = pump.link().next_deadline();
    pauses.push_back(now - before);
    pump.link().tick(now);
    pump.drain(now);
    grant_joins();
  }
  EXPECT_EQ(queue_pair.configured.size(), 7U) << "one for each attempt";
  for (std::size_t i = 1; i < 5; ++i) EXPECT_GT(pauses[i], pauses[i - 1]) << i;
  EXPECT_LE(pauses.back(), 20s);
  queue_pair.refuses_attributes = false;
  now = pump.link().next_deadline();
  pump.link().tick(now);
  pump.drain(now);
  grant_joins();
  EXPECT_EQ(pump.link().state(), LinkState::up);
  EXPECT_TRUE(tun.carrier);
}

TEST_F(PumpTest, RefusedBroadcastGroupTakesTheLinkDown) {
  queue_pair.refused_group = wire::broadcast_gid(kDefaultPKey);
  bring_up();
  EXPECT_EQ(pump.link().state(), LinkState::joining);
  EXPECT_FALSE(tun.carrier);
}

TEST_F(PumpTest, RefusedConfigurationAndGroupAreOneFailure) {
  queue_pair.refuses_attributes = true;
  queue_pair.refused_group = wire::broadcast_gid(kDefaultPKey);
  bring_up();
  EXPECT_EQ(pump.link().state(), LinkState::joining);
  EXPECT_LE(pump.link().next_deadline(), now + link::Config{}.join_backoff.first * 5 / 4);
}

TEST_F(PumpTest, RefusedGroupOfTheHostLeavesTheLinkUp) {
  bring_up();
  const auto others = queue_pair.attached;
  const IpAddress group = Ipv4Address(0xe0000105);
  queue_pair.refused_group = wire::multicast_gid(std::get<Ipv4Address>(group), kDefaultPKey);
  HostView view;
  view.addresses = {{Ipv4Address(0x0a2c0001), 24}};
  view.groups = {group};
  pump.link().on_host_changed(view, now);
  pump.drain(now);
  grant_joins();
  EXPECT_EQ(pump.link().state(), LinkState::up);
  EXPECT_TRUE(tun.carrier);
  EXPECT_EQ(queue_pair.attached, others);
}

/// One who captures: the other end of a connection of Captures.
class Capturer {
 public:
  explicit Capturer(Captures& captures, const control::CaptureRequest& request = {}) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    own_.reset(ends[0]);
    const int least = 1;  // the kernel makes it 4608 bytes
    EXPECT_EQ(::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    captures.add(request, FileDescriptor(ends[1]));
    const auto line = message();
    response = std::string(line.begin(), line.end());
  }
  /// The next message; empty if there is none.
  std::vector<std::uint8_t> message() {
    std::vector<std::uint8_t> out(erf::kMaxCaptureMessage);
    const auto size = ::recv(own_.get(), out.data(), out.size(), MSG_DONTWAIT);
    out.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return out;
  }
  struct Packet {
    bool is_received = false;
    std::vector<std::uint8_t> bytes;
    [[nodiscard]] wire::UdPacket parsed() const { return wire::UdPacket::parse(bytes).value(); }
  };
  /// All packets that wait.
  std::vector<Packet> packets() {
    std::vector<Packet> out;
    for (auto bytes = message(); !bytes.empty(); bytes = message()) {
      erf::CaptureMessageReader reader(bytes);
      lost += reader.lost();
      while (const auto record = reader.next()) {
        out.push_back({record->is_received, {record->packet.begin(), record->packet.end()}});
      }
      EXPECT_TRUE(reader.ok());
    }
    return out;
  }
  void end() { own_.reset(); }

  std::string response;
  std::uint64_t lost = 0;

 private:
  FileDescriptor own_;
};

TEST_F(PumpTest, CapturesADatagramWhenItIsPosted) {
  bring_up();
  Captures captures;
  Capturer capturer(captures);
  EXPECT_EQ(capturer.response, "{\"ok\":true}\n");
  pump.observe(&captures, Lid(4), PKey(0x8001));
  queue_pair.room = 3;
  broadcast(5);
  run();
  EXPECT_EQ(capturer.packets().size(), 3U) << "the send queue has no room for more";
  queue_pair.room = 1000;
  run();
  const auto rest = capturer.packets();
  ASSERT_EQ(rest.size(), 2U);
  const auto packet = rest[0].parsed();
  EXPECT_FALSE(rest[0].is_received);
  EXPECT_EQ(packet.lrh.slid, Lid(4));
  EXPECT_EQ(packet.lrh.dlid, link::group_record(wire::broadcast_gid(kDefaultPKey)).mlid);
  ASSERT_TRUE(packet.grh);
  EXPECT_EQ(packet.grh->sgid, link::port_gid(1));
  EXPECT_EQ(packet.grh->dgid, wire::broadcast_gid(kDefaultPKey));
  EXPECT_EQ(packet.bth.destination, kMulticastQpn);
  EXPECT_EQ(packet.bth.pkey, PKey(0x8001));
  EXPECT_EQ(packet.deth.source, queue_pair.qpn());
  EXPECT_EQ(packet.deth.qkey, pump.link().qkey());
  EXPECT_EQ(packet.payload.size(), wire::kEncapsulationSize + 84);
  EXPECT_EQ(captures.counters().packets, 5U);
  pump.observe(nullptr, {}, {});
  broadcast(1);
  run();
  EXPECT_TRUE(capturer.packets().empty());
}

TEST_F(PumpTest, CapturesWhatArrives) {
  bring_up();
  Captures captures;
  Capturer capturer(captures);
  pump.observe(&captures, Lid(4), PKey(0x8001));
  auto unicast = datagram(wire::EtherType::ipv4);
  unicast.sl = ServiceLevel(3);
  arrive(std::move(unicast));
  auto multicast = datagram(wire::EtherType::ipv6);
  multicast.has_grh = true;
  multicast.source_gid = link::port_gid(2);
  multicast.destination_gid = wire::broadcast_gid(kDefaultPKey);
  arrive(std::move(multicast));
  auto own = datagram(wire::EtherType::ipv6);  // was captured when it was sent
  own.source_lid = Lid(4);
  own.source_qpn = queue_pair.qpn();
  own.has_grh = true;
  own.source_gid = link::port_gid(1);
  own.destination_gid = wire::broadcast_gid(kDefaultPKey);
  arrive(std::move(own));
  run();
  const auto packets = capturer.packets();
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_TRUE(packets[0].is_received);
  EXPECT_EQ(packets[0].parsed().lrh.sl, ServiceLevel(3));
  EXPECT_EQ(packets[0].parsed().lrh.slid, Lid(7));
  EXPECT_EQ(packets[0].parsed().lrh.dlid, Lid(4));
  EXPECT_EQ(packets[0].parsed().bth.destination, queue_pair.qpn());
  EXPECT_EQ(packets[0].parsed().deth.source, Qpn(0x22));
  EXPECT_FALSE(packets[0].parsed().grh);
  EXPECT_EQ(packets[1].parsed().lrh.dlid,
            link::group_record(wire::broadcast_gid(kDefaultPKey)).mlid);
  EXPECT_EQ(packets[1].parsed().grh->sgid, link::port_gid(2));
  EXPECT_EQ(packets[1].parsed().grh->dgid, wire::broadcast_gid(kDefaultPKey));
  EXPECT_EQ(packets[1].parsed().bth.destination, kMulticastQpn);
}

TEST_F(PumpTest, CapturesOnlyOneNeighbour) {
  bring_up();
  Captures captures;
  Capturer other(captures, {.neighbour = Ipv4Address(0x0a2c0009)});
  Capturer capturer(captures, {.neighbour = Ipv4Address(0x0a2c0007)});
  const HwAddress hardware{.flags = 0, .qpn = Qpn(0x22), .gid = link::port_gid(7)};
  ASSERT_TRUE(pump.link().set_permanent(Ipv4Address(0x0a2c0007), hardware, now));
  pump.observe(&captures, Lid(4), PKey(0x8001));
  const auto from = [&](Qpn qpn, const Gid& gid) {
    auto one = datagram(wire::EtherType::ipv4);
    one.source_qpn = qpn;
    one.has_grh = true;
    one.source_gid = gid;
    arrive(std::move(one));
  };
  from(Qpn(0x22), link::port_gid(7));
  from(Qpn(0x22), link::port_gid(8));
  from(Qpn(0x23), link::port_gid(7));
  auto named = datagram(wire::EtherType::ipv4);
  std::ranges::copy(Ipv4Address(0x0a2c0007).bytes(), named.frame.bytes().begin() + 4 + 12);
  arrive(std::move(named));
  run();
  EXPECT_EQ(capturer.packets().size(), 2U) << "its queue pair, and its address";
  EXPECT_EQ(other.packets().size(), 0U);
}

TEST_F(PumpTest, APacketThatIsTooShortNamesNobody) {
  bring_up();
  Captures captures;
  Capturer ipv4(captures, {.neighbour = Ipv4Address()});
  Capturer ipv6(captures, {.neighbour = *Ipv6Address::parse("::")});
  Capturer all(captures);
  pump.observe(&captures, Lid(4), PKey(0x8001));
  for (const auto type : {wire::EtherType::ipv4, wire::EtherType::ipv6, wire::EtherType::arp}) {
    for (const std::size_t bytes : {0U, 7U, 13U, 17U, 19U}) {
      auto one = datagram(type);
      std::ranges::fill(one.frame.bytes().subspan(wire::kEncapsulationSize), std::uint8_t{0});
      one.frame.window(0, wire::kEncapsulationSize + bytes);
      arrive(std::move(one));
    }
  }
  run();
  EXPECT_EQ(ipv4.packets().size(), 0U);
  EXPECT_EQ(ipv6.packets().size(), 0U);
  const auto packets = all.packets();
  ASSERT_EQ(packets.size(), 15U);
  EXPECT_EQ(packets[2].parsed().payload.size(), wire::kEncapsulationSize + 13) << "without padding";
}

TEST_F(PumpTest, LeavesOutAndCountsWhatACapturerDoesNotRead) {
  bring_up();
  Captures captures;
  Capturer capturer(captures);
  pump.observe(&captures, Lid(4), PKey(0x8001));
  for (int i = 0; i < 100; ++i) {
    broadcast(1);
    run();
  }
  const auto read = capturer.packets().size();
  EXPECT_LT(read, 100U);
  EXPECT_EQ(captures.counters().packets, read);
  EXPECT_EQ(captures.counters().lost, 100 - read);
  EXPECT_EQ(capturer.lost, 0U);
  broadcast(1);
  run();
  EXPECT_EQ(capturer.packets().size(), 1U);
  EXPECT_EQ(capturer.lost, 100 - read) << "told with the next packet";
  broadcast(1);
  run();
  EXPECT_EQ(capturer.packets().size(), 1U);
  EXPECT_EQ(capturer.lost, 100 - read) << "told once";
}

TEST_F(PumpTest, ForgetsCapturersThatHaveGone) {
  bring_up();
  Captures captures;
  std::vector<Capturer> all;
  for (std::size_t i = 0; i < Captures::kMaxCaptures; ++i) all.emplace_back(captures);
  EXPECT_NE(Capturer(captures).response.find("too many captures"), std::string::npos);
  all[0].end();
  EXPECT_EQ(Capturer(captures).response, "{\"ok\":true}\n") << "one has gone";
  pump.observe(&captures, Lid(4), PKey(0x8001));
  EXPECT_TRUE(captures.is_on());
  for (auto& each : all) each.end();
  broadcast(1);
  run();
  EXPECT_FALSE(captures.is_on());
  broadcast(1);
  run();
}

}  // namespace
}  // namespace ipoib::daemon
