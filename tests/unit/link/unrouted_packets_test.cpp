// Packets of the host that no route covers.
#include "link/unrouted_packets.hpp"

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

class Unrouted : public LinkFixture {
 protected:
  static constexpr std::uint32_t kMain = 254;

  Unrouted() {
    view.tables = {{kMain, {{.destination = {kOwnIp, 24}, .metric = 0, .hops = {RouteHop{}}}}}};
  }
  [[nodiscard]] static HostRoute by_peer(const IpAddress& to, std::uint8_t bits) {
    return {.destination = {to, bits}, .metric = 0, .hops = {RouteHop{kPeer, 1}}};
  }
  void change(const RouteChange& change) { link->on_routes_changed({&change, 1}, now); }
  void add(const HostRoute& route) {
    change(RouteAdded{kMain, route, RouteAdded::Position::first});
  }
  void bring_up_with_peer() {
    bring_up();
    resolve_peer();
    forget();
    solicitations_ = count(Counter::arp_requests_broadcast);
  }
  [[nodiscard]] std::uint64_t solicitations() const {
    return count(Counter::arp_requests_broadcast) - solicitations_ +
           count(Counter::nd_solicitations_multicast);
  }
  [[nodiscard]] std::ptrdiff_t sent_to_peer() const {
    return std::ranges::count(link->sends(), kPeerHw.qpn, &Outgoing::qpn);
  }
  /// Types and codes of the ICMP messages to the host.
  [[nodiscard]] std::vector<std::pair<int, int>> errors() const {
    std::vector<std::pair<int, int>> found;
    for (const Frame& frame : link->to_host()) {
      const std::size_t begin = wire::ip_version(frame.bytes()) == 4 ? 20 : 40;
      found.emplace_back(frame.bytes()[begin], frame.bytes()[begin + 1]);
    }
    return found;
  }

  static constexpr Ipv4Address kFar{0x0a630001};
  static inline const Ipv6Address kFar6 = *Ipv6Address::parse("fd50::1");
  static inline const Ipv6Address kOwn6 = *Ipv6Address::parse("fd00::1");
  std::uint64_t solicitations_ = 0;
};

TEST_F(Unrouted, WaitsForTheRoute) {
  bring_up_with_peer();
  send(kFar);
  EXPECT_TRUE(link->sends().empty());
  EXPECT_EQ(count(Counter::route_waits), 1U);
  now += 4ms;
  add(by_peer(kFar, 32));
  ASSERT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(link->sends()[0].qpn, kPeerHw.qpn);
  EXPECT_EQ(link->sends()[0].frame.size(), 88U);
  EXPECT_EQ(solicitations(), 0U);
  EXPECT_EQ(state_of(kFar), "gone");
}

TEST_F(Unrouted, AnIpv6PacketWaitsForTheRoute) {
  bring_up_with_peer();
  send(ip_packet(kFar6, kOwn6));
  EXPECT_TRUE(link->sends().empty());
  add(by_peer(kFar6, 64));
  ASSERT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(link->sends()[0].qpn, kPeerHw.qpn);
  EXPECT_EQ(solicitations(), 0U);
}

TEST_F(Unrouted, IsRefusedIfNoRouteComes) {
  bring_up_with_peer();
  send(kFar);
  send(ip_packet(kFar6, kOwn6));
  tick_to(now + config.route_wait - 1us);
  EXPECT_TRUE(link->to_host().empty());
  tick_to(now + 1us);
  EXPECT_EQ(errors(), (std::vector<std::pair<int, int>>{{3, 0}, {1, 0}}))
      << "network unreachable, no route to destination";
  EXPECT_EQ(count(Counter::drop_no_route), 2U);
  EXPECT_EQ(count(Counter::unreachable_answers), 2U);
  EXPECT_EQ(solicitations(), 0U);
  EXPECT_EQ(link->next_deadline() > now, true);
}

TEST_F(Unrouted, IsRefusedAtItsOwnDeadline) {
  bring_up_with_peer();
  send(kFar);
  now += 3ms;
  send(kFar);
  tick_to(now + 2ms);
  EXPECT_EQ(count(Counter::drop_no_route), 1U);
  EXPECT_EQ(count(Counter::route_waits), 2U) << "each is counted once";
  tick_to(now + 3ms);
  EXPECT_EQ(count(Counter::drop_no_route), 2U);
}

TEST_F(Unrouted, AnotherRouteDoesNotEndTheWait) {
  bring_up_with_peer();
  send(kFar);
  add(by_peer(Ipv4Address(0x0a640000), 16));
  EXPECT_TRUE(link->sends().empty());
  EXPECT_EQ(count(Counter::drop_no_route), 0U);
  tick_to(now + config.route_wait);
  EXPECT_EQ(count(Counter::drop_no_route), 1U);
}

TEST_F(Unrouted, WaitsLongerWhileChangesAreMissing) {
  bring_up_with_peer();
  change(RoutesUnknown{});
  send(kFar);
  tick_to(now + 900ms);
  EXPECT_EQ(count(Counter::drop_no_route), 0U);
  view.tables[0].routes.push_back(by_peer(kFar, 32));
  link->on_host_changed(view, now);
  EXPECT_EQ(sent_to_peer(), 1);
  change(RoutesUnknown{});
  send(ip_packet(kFar6, kOwn6));
  tick_to(now + config.route_wait_unknown);
  EXPECT_EQ(count(Counter::drop_no_route), 1U) << "not for ever";
}

TEST_F(Unrouted, AViewEndsTheLongerWait) {
  bring_up_with_peer();
  change(RoutesUnknown{});
  send(kFar);
  tick_to(now + 100ms);
  link->on_host_changed(view, now);
  EXPECT_EQ(count(Counter::drop_no_route), 1U);
}

TEST_F(Unrouted, AreLimited) {
  config.limits.unrouted = 3;
  bring_up_with_peer();
  for (int i = 0; i < 5; ++i) send(kFar);
  EXPECT_EQ(count(Counter::drop_unrouted_limit), 2U);
  add(by_peer(kFar, 32));
  EXPECT_EQ(link->sends().size(), 3U);
  forget();
  change(RouteRemoved{kMain, by_peer(kFar, 32)});
  send(kFar);
  EXPECT_EQ(count(Counter::drop_unrouted_limit), 2U) << "there is room again";
}

TEST_F(Unrouted, AreLimitedByTheirBytes) {
  config.limits.unrouted_bytes = 2 * pool.slot_size();
  bring_up_with_peer();
  for (int i = 0; i < 3; ++i) send(kFar);
  EXPECT_EQ(count(Counter::drop_unrouted_limit), 1U);
}

TEST_F(Unrouted, BytesAreFreeAgain) {
  config.limits.unrouted_bytes = 2 * pool.slot_size();
  bring_up_with_peer();
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 2; ++i) send(kFar);
    tick_to(now + config.route_wait);
  }
  EXPECT_EQ(count(Counter::drop_unrouted_limit), 0U);
  EXPECT_EQ(count(Counter::drop_no_route), 4U);
}

TEST_F(Unrouted, AreDroppedWhenTheLinkGoesDown) {
  bring_up_with_peer();
  send(kFar);
  port.active = false;
  link->on_port(port, now);
  EXPECT_EQ(count(Counter::drop_link_down), 1U);
  EXPECT_EQ(link->next_deadline() > now + config.route_wait, true);
}

TEST_F(Unrouted, ARemovedRouteIsRefusedAndNotSolicited) {
  view.tables[0].routes.push_back(by_peer(kFar, 32));
  bring_up_with_peer();
  send(kFar);
  EXPECT_EQ(sent_to_peer(), 1);
  change(RouteRemoved{kMain, by_peer(kFar, 32)});
  send(kFar);
  tick_to(now + config.route_wait);
  EXPECT_EQ(sent_to_peer(), 1);
  EXPECT_EQ(count(Counter::drop_no_route), 1U);
  EXPECT_EQ(solicitations(), 0U);
}

TEST_F(Unrouted, LinkLocalAddressesAreAlwaysOnTheLink) {
  bring_up_with_peer();
  send(ip_packet(*Ipv6Address::parse("fe80::2"), *Ipv6Address::parse("fe80::1")));
  EXPECT_EQ(count(Counter::route_waits), 0U);
  EXPECT_EQ(state_of(*Ipv6Address::parse("fe80::2")), "incomplete");
}

TEST_F(Unrouted, APacketThatTheHostHasResolvedNeedsNoRoute) {
  bring_up_with_peer();
  Frame frame = ip_packet(kFar);
  const std::optional<IpAddress> none;
  link->from_host({&frame, 1}, now, {&none, 1});
  EXPECT_EQ(count(Counter::route_waits), 0U) << "on a TAP the kernel has chosen the next hop";
  EXPECT_EQ(state_of(kFar), "incomplete");
}

}  // namespace
}  // namespace ipoib::link
