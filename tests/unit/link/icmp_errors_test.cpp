// What the host is told about packets that cannot be delivered.
#include "link/icmp_errors.hpp"

#include "tests/unit/link/link_fixture.hpp"
#include "wire/ipv4.hpp"

namespace ipoib::link {
namespace {

using Error = std::pair<std::uint8_t, std::uint8_t>;
constexpr Error kHostUnreachable{3, 1};
constexpr Error kAddressUnreachable{1, 3};

class IcmpErrorsTest : public LinkFixture {
 protected:
  IcmpErrorsTest() {
    view.addresses.push_back({kOwnIpv6, 64});
    view.local = {{kOwnIp, 32}, {kVirtual, 32}};
    config.limits.parked_bytes_per_neighbour = 3 * kParkedPacket;
  }
  void fail_resolution() { tick_to(now + config.ageing.broadcast_probes * 1s); }
  void make_failed() {
    send(kPeer);
    fail_resolution();
    ASSERT_EQ(state_of(kPeer), "failed");
    forget();
  }
  /// Types and codes of the ICMP messages to the host.
  [[nodiscard]] std::vector<Error> errors() const {
    std::vector<Error> found;
    for (const Frame& frame : link->to_host()) {
      const std::size_t begin = wire::ip_version(frame.bytes()) == 4 ? 20 : 40;
      found.emplace_back(frame.bytes()[begin], frame.bytes()[begin + 1]);
    }
    return found;
  }
  void refuse_paths() {
    for (const PathRequest& ask : take<PathRequest>()) {
      link->on_response({ask.id, SaFailure(wire::SaStatus::no_records)}, now);
    }
  }

  static inline const Ipv6Address kOwnIpv6 = *Ipv6Address::parse("fd00::1");
  static inline const Ipv6Address kPeerIpv6 = *Ipv6Address::parse("fd00::2");
  static constexpr Ipv4Address kStranger{0x0a636363};
  static constexpr Ipv4Address kVirtual{0x0a090909};  ///< on another interface
};

TEST_F(IcmpErrorsTest, EachParkedPacketIsReportedWhenResolutionFails) {
  bring_up();
  for (int i = 0; i < 4; ++i) send(kPeer);
  tick_to(now + 2900ms);
  EXPECT_TRUE(link->to_host().empty());
  fail_resolution();
  EXPECT_EQ(errors(), std::vector<Error>(3, kHostUnreachable)) << "the fourth was not parked";
  EXPECT_EQ(count(Counter::unreachable_answers), 3U);
  EXPECT_EQ(count(Counter::drop_neighbour_failed), 3U);
  const auto header = wire::Ipv4Header::parse(std::as_const(link->to_host()[0]).bytes());
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, kPeer);
  EXPECT_EQ(header->destination, kOwnIp);
}

TEST_F(IcmpErrorsTest, Ipv6GetsAddressUnreachable) {
  bring_up();
  send(ip_packet(kPeerIpv6, kOwnIpv6));
  fail_resolution();
  EXPECT_EQ(errors(), std::vector<Error>{kAddressUnreachable});
}

TEST_F(IcmpErrorsTest, AreSentAtOnceWhileTheFailureIsRemembered) {
  bring_up();
  make_failed();
  send(kPeer);
  send(kPeer);
  EXPECT_EQ(errors(), std::vector<Error>(2, kHostUnreachable));
  EXPECT_TRUE(link->sends().empty());
}

TEST_F(IcmpErrorsTest, AreSentWhenTheSaHasNoPath) {
  bring_up();
  send(kPeer);
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  refuse_paths();
  EXPECT_EQ(errors(), std::vector<Error>{kHostUnreachable});
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
  send(kPeer);
  EXPECT_EQ(errors().size(), 2U);
}

TEST_F(IcmpErrorsTest, AreSentWhenThePathHasFailedBefore) {
  bring_up();
  send(kPeer);
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  refuse_paths();
  forget();
  // Another neighbour on the same port.
  constexpr Ipv4Address kOther{0x0a2c0003};
  send(kOther);
  wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
  reply.sender_protocol = kOther;
  receive_arp(reply);
  EXPECT_EQ(errors(), std::vector<Error>{kHostUnreachable});
}

TEST_F(IcmpErrorsTest, AreSentWhenThereIsNoPathToAPermanentNeighbour) {
  bring_up();
  ASSERT_TRUE(link->set_permanent(kPeer, kPeerHw, now));
  send(kPeer);
  refuse_paths();
  EXPECT_EQ(errors().size(), 1U) << "parked";
  send(kPeer);
  EXPECT_EQ(errors().size(), 2U) << "at once";
}

TEST_F(IcmpErrorsTest, AreNotSentWhenTheEntryIsRemovedOrTheLinkGoesDown) {
  bring_up();
  send(kPeer);
  EXPECT_TRUE(link->remove(kPeer));
  send(kPeer);
  port.active = false;
  link->on_port(port, now);
  EXPECT_TRUE(link->to_host().empty());
}

TEST_F(IcmpErrorsTest, AreNotSentAboutAParkedArpReply) {
  bring_up();
  receive_arp(arp_from_peer(wire::ArpOperation::request));
  refuse_paths();
  EXPECT_TRUE(link->to_host().empty());
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
}

TEST_F(IcmpErrorsTest, AreLimited) {
  config.limits.icmp_errors = 100;
  bring_up();
  make_failed();
  for (int i = 0; i < 200; ++i) send(kPeer);
  const auto burst = errors().size();
  EXPECT_GE(burst, 24U);
  EXPECT_LE(burst, 25U) << "a quarter of a second's rate; the first has used one";
  EXPECT_EQ(count(Counter::icmp_errors_withheld), 200 - burst);
  EXPECT_EQ(count(Counter::drop_neighbour_failed), 201U) << "dropped all the same";
  now += 10ms;
  send(kPeer);
  send(kPeer);
  EXPECT_EQ(errors().size(), burst + 1);
}

TEST_F(IcmpErrorsTest, AreLimitedForPacketsOverTheMtu) {
  config.limits.icmp_errors = 100;
  bring_up();
  for (int i = 0; i < 50; ++i) send(kPeer, 2045);
  EXPECT_EQ(errors().size(), 25U);
  EXPECT_EQ(count(Counter::icmp_errors_withheld), 25U);
}

TEST_F(IcmpErrorsTest, ErrorsAboutForwardedPacketsLeaveTheHostItsShare) {
  config.limits.icmp_errors = 100;
  bring_up();
  make_failed();
  for (int i = 0; i < 200; ++i) send(ip_packet(kPeer, kStranger));
  EXPECT_EQ(errors().size(), 25U);
  EXPECT_GT(count(Counter::icmp_errors_withheld), 0U);
  const std::uint64_t withheld = count(Counter::icmp_errors_withheld);
  for (int i = 0; i < 10; ++i) send(kPeer);
  for (int i = 0; i < 10; ++i) send(ip_packet(kPeer, kVirtual));
  EXPECT_EQ(count(Counter::icmp_errors_withheld), withheld);
}

TEST(IcmpErrorFrames, AMessageThatDoesNotFitIntoTheFrameIsNotSent) {
  FramePool small(2, 48);
  Config config;
  HostAddresses host;
  Output out;
  IcmpErrors icmp{config, host, out};
  for (FramePool* const pool : {&small}) {
    Frame frame = pool->take();
    frame.window(0, wire::kEncapsulationSize + 40);
    std::ranges::fill(frame.bytes(), std::uint8_t{0});
    wire::emit_encapsulation(wire::EtherType::ipv4, frame.bytes().data());
    const auto ip = frame.bytes().subspan(wire::kEncapsulationSize);
    ip[0] = 0x45;
    ip[3] = 40;
    ip[8] = 64;
    ip[9] = 17;
    std::ranges::copy(Ipv4Address(0x0a2c0001).bytes(), ip.begin() + 12);
    std::ranges::copy(Ipv4Address(0x0a2c0002).bytes(), ip.begin() + 16);
    icmp.unreachable(std::move(frame), Counter::drop_neighbour_failed, TimePoint{1h});
  }
  EXPECT_TRUE(out.to_host.empty());
  EXPECT_EQ(out.counters[Counter::unreachable_answers], 0U);
  EXPECT_EQ(out.counters[Counter::drop_neighbour_failed], 1U);
  EXPECT_EQ(small.available(), small.capacity());
}

}  // namespace
}  // namespace ipoib::link
