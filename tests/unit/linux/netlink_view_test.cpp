// NetlinkView with the kernel's tables.
#include "linux/netlink_view.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
// After netinet/in.h.
#include <linux/mroute.h>
#include <linux/mroute6.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "ipoib/bytes.hpp"
#include "ipoib/file_descriptor.hpp"
#include "linux/netlink_sockets.hpp"
#include "linux/route_reader.hpp"
#include "linux/tun_device.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"
#include "wire/checksum.hpp"

namespace ipoib::linux {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

IpPrefix prefix(const char* address, std::uint8_t length) {
  return {*Ipv4Address::parse(address), length};
}

/// Writes an IPv4 header without options, with the length of the packet and its checksum.
void put_ipv4(std::span<std::uint8_t> packet, std::uint8_t protocol, const char* source,
              const char* destination) {
  packet[0] = 0x45;
  store_be(&packet[2], static_cast<std::uint16_t>(packet.size()));
  packet[8] = 64;
  packet[9] = protocol;
  std::ranges::copy(Ipv4Address::parse(source)->bytes(), packet.begin() + 12);
  std::ranges::copy(Ipv4Address::parse(destination)->bytes(), packet.begin() + 16);
  store_be(&packet[10], wire::internet_checksum(ConstBytes(packet).first(20)));
}

struct RedirectedTraffic {
  const char* router;  ///< sends the redirect
  const char* host;    ///< receives it
  const char* about;   ///< the destination of the packet that caused it
};

/// An ICMP redirect (RFC 792) that quotes an echo reply.
std::vector<std::uint8_t> redirect_to(const char* gateway, const RedirectedTraffic& traffic) {
  constexpr std::size_t kQuote = 28;
  std::vector<std::uint8_t> packet(28 + kQuote);
  std::span<std::uint8_t> icmp(packet);
  icmp = icmp.subspan(20);
  icmp[0] = 5;
  icmp[1] = 1;  // for the host
  std::ranges::copy(Ipv4Address::parse(gateway)->bytes(), icmp.begin() + 4);
  put_ipv4(icmp.subspan(8), 1, traffic.host, traffic.about);
  store_be(&icmp[2], wire::internet_checksum(icmp));
  put_ipv4(packet, 1, traffic.router, traffic.host);
  return packet;
}

class NetlinkViewTest : public test::NamespaceTest {
 protected:
  using Pending = HostMirror::Pending;

  void SetUp() override {
    NamespaceTest::SetUp();
    if (IsSkipped()) return;
    tun_ = TunDevice::open({.name = "ib0"}).value();
    view_ = NetlinkView::open(tun_->interface_index()).value();
    EXPECT_THAT(snapshot().addresses, IsEmpty());
  }

  /// Waits for a change and returns the view.
  HostView snapshot() {
    for (;;) {
      if (auto update = view_->update().value()) return *update;
      if (!test::wait_readable(view_->descriptor())) {
        ADD_FAILURE() << "no change was reported";
        return {};
      }
    }
  }

  std::unique_ptr<TunDevice> tun_;
  std::unique_ptr<NetlinkView> view_;
};

TEST_F(NetlinkViewTest, MirrorsAddressChanges) {
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 24)));
  ip("addr add 10.8.0.1/16 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 24), prefix("10.8.0.1", 16)));
  ip("addr del 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.8.0.1", 16)));
}

TEST_F(NetlinkViewTest, HasNoAddressesWhileTheInterfaceIsDown) {
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 24)));
  ip("link set ib0 down");
  EXPECT_THAT(snapshot().addresses, IsEmpty());
  ip("link set ib0 up");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 24)));
}

TEST_F(NetlinkViewTest, MirrorsMulticastRouting) {
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_FALSE(snapshot().routes_ipv4_multicast);
  // As a routing program does.
  const FileDescriptor router(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_IGMP));
  const int on = 1;
  if (::setsockopt(router.get(), IPPROTO_IP, MRT_INIT, &on, sizeof on) != 0) {
    GTEST_SKIP() << "the kernel does not route multicast";
  }
  vifctl interface {};
  interface.vifc_flags = VIFF_USE_IFINDEX;
  interface.vifc_threshold = 1;
  interface.vifc_lcl_ifindex = tun_->interface_index();
  ASSERT_EQ(::setsockopt(router.get(), IPPROTO_IP, MRT_ADD_VIF, &interface, sizeof interface), 0);
  const HostView routing = snapshot();
  EXPECT_TRUE(routing.routes_ipv4_multicast);
  EXPECT_FALSE(routing.routes_ipv6_multicast);
  ASSERT_EQ(::setsockopt(router.get(), IPPROTO_IP, MRT_DEL_VIF, &interface, sizeof interface), 0);
  EXPECT_FALSE(snapshot().routes_ipv4_multicast);
}

TEST_F(NetlinkViewTest, MirrorsMulticastRoutingOfIpv6) {
  ip("-6 addr add fd07::1/64 dev ib0 nodad");
  const FileDescriptor router(::socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6));
  const int on = 1;
  if (::setsockopt(router.get(), IPPROTO_IPV6, MRT6_INIT, &on, sizeof on) != 0) {
    GTEST_SKIP() << "the kernel does not route multicast of IPv6";
  }
  EXPECT_FALSE(snapshot().routes_ipv6_multicast);
  mif6ctl interface {};
  interface.vifc_threshold = 1;
  interface.mif6c_pifi = static_cast<std::uint16_t>(tun_->interface_index());
  ASSERT_EQ(::setsockopt(router.get(), IPPROTO_IPV6, MRT6_ADD_MIF, &interface, sizeof interface),
            0);
  const HostView routing = snapshot();
  EXPECT_TRUE(routing.routes_ipv6_multicast);
  EXPECT_FALSE(routing.routes_ipv4_multicast);
}

/// Packets of the host have it, and the Ethernet view answers for it.
TEST_F(NetlinkViewTest, HasTheEthernetAddressOfATap) {
  constexpr MacAddress kMac(0x0200'0000'0042);
  const auto tap = TunDevice::open({.name = "ib1", .mac = kMac}).value();
  const auto view = NetlinkView::open(tap->interface_index()).value();
  const auto up = view->update().value();
  ASSERT_TRUE(up);
  EXPECT_EQ(up->mac, kMac);
  ip("link set ib1 down");
  const auto down = view->update().value();
  EXPECT_EQ(down.value_or(*up).mac, kMac);
  ip("link set ib1 address 02:00:00:00:00:43");
  const auto changed = view->update().value();
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->mac, MacAddress(0x0200'0000'0043));
  EXPECT_EQ(view_->update().value().value_or(HostView()).mac, std::nullopt) << "a TUN has none";
}

TEST_F(NetlinkViewTest, IgnoresOtherInterfaces) {
  ip("-6 addr add fd07::1/64 dev lo nodad");
  EXPECT_FALSE(view_->update().value());
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 24)));
}

TEST_F(NetlinkViewTest, ReturnsNothingAfterAChangeThatWasUndone) {
  ip("link set ib0 promisc on");
  ip("link set ib0 promisc off");
  EXPECT_EQ(view_->take_events(), Pending::any);
  EXPECT_FALSE(view_->update().value());
  EXPECT_EQ(view_->take_events(), Pending::none) << "the change has been looked at";
}

/// Another copy of the routes may have followed changes that the kernel has undone in silence.
TEST_F(NetlinkViewTest, ReturnsTheSameRoutesAfterTheyHaveChanged) {
  ip("addr add 10.9.0.1/24 dev ib0");
  ASSERT_TRUE(tun_->set_carrier(true));
  while (view_->take_events() != Pending::none) (void)view_->update().value();
  ip("route add 10.50.0.0/16 dev ib0");
  ip("route del 10.50.0.0/16 dev ib0");
  EXPECT_EQ(view_->take_events(), Pending::routes);
  EXPECT_TRUE(view_->update().value());
}

/// Without carrier duplicate address detection does not begin.
TEST_F(NetlinkViewTest, TentativeAddressesAreNotMirrored) {
  ip("-6 addr add fd00::1/64 dev ib0");
  ip("-6 addr show dev ib0 | grep -q 'fd00::1/64.*tentative'");
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 24)));
}

TEST_F(NetlinkViewTest, MirrorsTheOwnAddressOfAPointToPointLink) {
  ip("addr add 10.9.0.1 peer 10.9.0.2/32 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 32)));
}

TEST_F(NetlinkViewTest, MirrorsForwarding) {
  const auto set = [](const char* interface, const char* value) {
    ASSERT_TRUE(std::ofstream(std::string("/proc/sys/net/ipv6/conf/") + interface + "/forwarding")
                << value << std::flush);
  };
  set("ib0", "1");
  set("lo", "0");
  EXPECT_TRUE(snapshot().is_ipv6_router);
  set("lo", "1");
  set("ib0", "0");
  EXPECT_FALSE(snapshot().is_ipv6_router) << "of another interface";
}

TEST_F(NetlinkViewTest, NoticesThatTheInterfaceIsGone) {
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 24)));
  EXPECT_TRUE(view_->interface_exists());
  ip("link del ib0");
  EXPECT_THAT(snapshot().addresses, IsEmpty());
  EXPECT_FALSE(view_->interface_exists());
}

/// Returns the routes of a table as text: "10.1.0.0/16 via 10.9.0.2 metric 5, ...".
std::string routes(const HostView& view, std::uint32_t table) {
  std::vector<std::string> lines;
  for (const RoutingTable& one : view.tables) {
    if (one.id != table) continue;
    for (const HostRoute& route : one.routes) {
      std::string line =
          to_string(route.destination.address) + "/" + std::to_string(route.destination.length);
      for (const RouteHop& hop : route.hops) {
        if (hop.gateway) line += " via " + to_string(*hop.gateway);
        if (hop.weight != 1) line += " x" + std::to_string(hop.weight);
      }
      if (route.metric != 0) line += " metric " + std::to_string(route.metric);
      lines.push_back(line);
    }
  }
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : ", ") + line;
  return text;
}

TEST_F(NetlinkViewTest, MirrorsRoutesThroughTheInterface) {
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_EQ(routes(snapshot(), RT_TABLE_MAIN), "10.9.0.0/24");
  ip("route add default via 10.9.0.254 metric 5");
  EXPECT_EQ(routes(snapshot(), RT_TABLE_MAIN), "0.0.0.0/0 via 10.9.0.254 metric 5, 10.9.0.0/24");
  ip("route replace default via 10.9.0.253 metric 5");
  EXPECT_EQ(routes(snapshot(), RT_TABLE_MAIN), "0.0.0.0/0 via 10.9.0.253 metric 5, 10.9.0.0/24");
  ip("route del default");
  EXPECT_EQ(routes(snapshot(), RT_TABLE_MAIN), "10.9.0.0/24");
}

TEST_F(NetlinkViewTest, MirrorsTheHopsOfAMultipathRouteThroughTheInterface) {
  ip("addr add 10.9.0.1/24 dev ib0");
  (void)snapshot();
  ip("route add 10.1.0.0/16 nexthop via 10.9.0.2 weight 3 nexthop via 10.9.0.3"
     " nexthop dev lo weight 7");
  EXPECT_EQ(routes(snapshot(), RT_TABLE_MAIN),
            "10.1.0.0/16 via 10.9.0.2 x3 via 10.9.0.3, 10.9.0.0/24");
}

TEST_F(NetlinkViewTest, MirrorsIpv6RoutesAndOtherTables) {
  ip("-6 addr add fd00::1/64 dev ib0 nodad");
  ip("-6 route add default via fd00::2 dev ib0 table 77");
  ip("route add 10.1.0.0/16 via inet6 fd00::2 dev ib0 table 77");
  HostView view = snapshot();
  while (routes(view, 77).find("10.1.0.0") == std::string::npos) view = snapshot();
  EXPECT_EQ(routes(view, 77), "10.1.0.0/16 via fd00::2, ::/0 via fd00::2 metric 1024");
  EXPECT_EQ(routes(view, RT_TABLE_LOCAL), "");
}

TEST_F(NetlinkViewTest, IgnoresRoutesThroughOtherInterfaces) {
  ip("addr add 10.9.0.1/24 dev ib0");
  (void)snapshot();
  ip("route add blackhole 10.2.0.0/16");
  ip("route add 10.3.0.0/16 dev lo");
  ip("route add 10.5.0.0/16 via 10.9.0.2 table local");
  ip("route add 10.4.0.0/16 via 10.9.0.2");
  const HostView view = snapshot();
  EXPECT_EQ(routes(view, RT_TABLE_MAIN), "10.4.0.0/16 via 10.9.0.2, 10.9.0.0/24");
  EXPECT_EQ(routes(view, RT_TABLE_LOCAL), "") << "for the host itself";
}

TEST_F(NetlinkViewTest, RoutesHaveTheirSource) {
  ip("addr add 10.9.0.1/24 dev ib0");
  ip("addr add 10.9.0.2/24 dev ib0");
  ASSERT_TRUE(tun_->set_carrier(true));
  ip("route add 10.1.0.0/16 via 10.9.0.254 src 10.9.0.2");
  ip("route add 10.2.0.0/16 via 10.9.0.254");
  const HostView view = snapshot();
  const auto source_of = [&](const char* destination) -> std::optional<IpAddress> {
    for (const auto& table : view.tables) {
      for (const auto& route : table.routes) {
        if (route.destination.address == *parse_ip_address(destination)) return route.source;
      }
    }
    return std::nullopt;
  };
  EXPECT_EQ(source_of("10.1.0.0"), parse_ip_address("10.9.0.2"));
  EXPECT_EQ(source_of("10.2.0.0"), std::nullopt);
  EXPECT_EQ(source_of("10.9.0.0"), parse_ip_address("10.9.0.1")) << "that of the subnet";
}

TEST_F(NetlinkViewTest, MirrorsRedirects) {
  ip("addr add 10.9.0.1/24 dev ib0");
  ASSERT_TRUE(tun_->set_carrier(true));
  ip("route add 10.1.0.0/16 via 10.9.0.254");
  EXPECT_THAT(snapshot().redirects, IsEmpty());
  const auto redirect =
      redirect_to("10.9.0.253", {.router = "10.9.0.254", .host = "10.9.0.1", .about = "10.1.0.5"});
  ASSERT_TRUE(tun_->write(redirect));
  ip("route get 10.1.0.5 | grep -q 'via 10.9.0.253'");
  view_->expect_change();
  const HostView view = snapshot();
  EXPECT_THAT(view.redirects, ElementsAre(Redirect{*parse_ip_address("10.1.0.5"),
                                                   *parse_ip_address("10.9.0.253")}));
  EXPECT_EQ(routes(view, RT_TABLE_MAIN), "10.1.0.0/16 via 10.9.0.254, 10.9.0.0/24")
      << "an exception is no route";

  // A socket without strict checking lists exceptions among the routes.
  const auto sockets = NetlinkSockets::open();
  ASSERT_TRUE(sockets);
  HostView again;
  ASSERT_TRUE(read_routing(sockets->queries.get(), {tun_->interface_index(), "ib0"}, again));
  EXPECT_EQ(routes(again, RT_TABLE_MAIN), routes(view, RT_TABLE_MAIN));
  EXPECT_EQ(again.redirects, view.redirects);
  HostView other;
  ASSERT_TRUE(read_routing(sockets->queries.get(), {tun_->interface_index() + 1, "ib1"}, other));
  EXPECT_THAT(other.redirects, IsEmpty()) << "they are of ib0";
}

TEST_F(NetlinkViewTest, MirrorsRulesWithTheSelectorsThatPacketsShow) {
  ip("rule add from 10.9.0.1 to 10.1.0.0/16 table 77 priority 50");
  HostView view = snapshot();
  ASSERT_GE(view.rules.size(), 2U);
  EXPECT_EQ(view.rules[1].table, 77U) << "after the rule for local addresses";
  EXPECT_EQ(view.rules[1].source, (IpPrefix{*Ipv4Address::parse("10.9.0.1"), 32}));
  EXPECT_EQ(view.rules[1].destination, (IpPrefix{*Ipv4Address::parse("10.1.0.0"), 16}));
  EXPECT_TRUE(view.rules[1].is_certain);
  ip("rule add fwmark 7 table 78 suppress_prefixlength 0 priority 51");
  view = snapshot();
  EXPECT_EQ(view.rules[2].table, 78U);
  EXPECT_FALSE(view.rules[2].is_certain);
  EXPECT_EQ(view.rules[2].ignored_bits, 0);
  ip("-6 rule add not from fd00::/16 table 79 priority 52");
  view = snapshot();
  const auto other = std::ranges::find(view.rules, 79U, &RoutingRule::table);
  ASSERT_NE(other, view.rules.end());
  EXPECT_EQ(other->family, IpFamily::v6);
  EXPECT_TRUE(other->is_inverted);
  EXPECT_TRUE(other->is_certain);
  EXPECT_EQ(other->source, (IpPrefix{*Ipv6Address::parse("fd00::"), 16}));
}

TEST_F(NetlinkViewTest, MirrorsProtocolPortsTosAndInterfacesOfRules) {
  ip("rule add ipproto udp sport 1000-1001 dport 53 tos 0x10 iif lo table 77 priority 50");
  HostView view = snapshot();
  const RoutingRule& rule = view.rules.at(1);
  EXPECT_EQ(rule.priority, 50U);
  EXPECT_EQ(rule.protocol, 17);
  EXPECT_EQ(rule.source_ports, (PortRange{1000, 1001}));
  EXPECT_EQ(rule.destination_ports, (PortRange{53, 53}));
  EXPECT_EQ(rule.tos, 0x10);
  EXPECT_EQ(rule.input, RoutingRule::Input::host);
  EXPECT_TRUE(rule.is_certain);
  ip("rule add iif eth7 table 78 priority 51");
  EXPECT_EQ(snapshot().rules.at(2).input, RoutingRule::Input::network);
  ip("rule add oif eth7 table 79 priority 52");
  view = snapshot();
  EXPECT_TRUE(view.rules.at(3).never);
  EXPECT_TRUE(view.rules.at(3).is_certain);
  ip("rule add oif ib0 table 80 priority 53");
  view = snapshot();
  EXPECT_FALSE(view.rules.at(4).never);
  EXPECT_FALSE(view.rules.at(4).is_certain) << "of bound sockets only";
  ip("rule add goto 32766 priority 54");
  EXPECT_EQ(snapshot().rules.at(5).jump, 32766U);
}

TEST_F(NetlinkViewTest, MirrorsNexthopObjects) {
  ip("addr add 10.9.0.1/24 dev ib0");
  ASSERT_TRUE(tun_->set_carrier(true));
  std::ofstream("/proc/sys/net/ipv4/nexthop_compat_mode") << "0" << std::flush;
  ip("nexthop add id 1 via 10.9.0.2 dev ib0");
  ip("nexthop add id 2 via 10.9.0.3 dev ib0");
  ip("nexthop add id 3 group 1,2/2,4");
  ip("route add 10.1.0.0/16 nhid 1");
  ip("route add 10.2.0.0/16 nhid 3");
  EXPECT_EQ(routes(snapshot(), RT_TABLE_MAIN),
            "10.1.0.0/16 via 10.9.0.2, 10.2.0.0/16 via 10.9.0.2 x2 via 10.9.0.3 x4, 10.9.0.0/24");
  ip("nexthop replace id 1 via 10.9.0.7 dev ib0");
  EXPECT_EQ(routes(snapshot(), RT_TABLE_MAIN),
            "10.1.0.0/16 via 10.9.0.7, 10.2.0.0/16 via 10.9.0.7 x2 via 10.9.0.3 x4, 10.9.0.0/24");
}

TEST_F(NetlinkViewTest, MirrorsTosAndPreferenceOfRoutes) {
  ip("addr add 10.9.0.1/24 dev ib0");
  ip("route add 10.1.0.0/16 tos 0x10 via 10.9.0.2");
  ip("-6 addr add fd00::1/64 dev ib0 nodad");
  ip("-6 route add default via fd00::2 dev ib0 pref high");
  ip("-6 route add fd77::/64 via fd00::2 dev ib0 pref low");
  const auto find = [view = snapshot()](const IpPrefix& prefix) {
    for (const RoutingTable& table : view.tables) {
      const auto at = std::ranges::find(table.routes, prefix, &HostRoute::destination);
      if (at != table.routes.end()) return *at;
    }
    return HostRoute{};
  };
  EXPECT_EQ(find(prefix("10.1.0.0", 16)).tos, 0x10);
  EXPECT_EQ(find({Ipv6Address(), 0}).preference, HostRoute::Preference::high);
  EXPECT_EQ(find({*Ipv6Address::parse("fd77::"), 64}).preference, HostRoute::Preference::low);
}

TEST_F(NetlinkViewTest, MirrorsLocalAddressesOfAllInterfaces) {
  ip("link set lo up");
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().local, ElementsAre(prefix("10.9.0.1", 32))) << "without 127.0.0.0/8";
  ip("addr add 10.7.0.1/32 dev lo");
  EXPECT_THAT(snapshot().local,
              UnorderedElementsAre(prefix("10.9.0.1", 32), prefix("10.7.0.1", 32)));
  ip("route add local 10.6.0.0/16 dev lo");
  EXPECT_EQ(snapshot().local.size(), 3U);
  ip("addr del 10.7.0.1/32 dev lo");
  EXPECT_THAT(snapshot().local,
              UnorderedElementsAre(prefix("10.9.0.1", 32), prefix("10.6.0.0", 16)));
}

/// As in a VRF, whose device not every kernel has.
TEST_F(NetlinkViewTest, MirrorsLocalAddressesOfTheTableThatHasItsOwn) {
  ip("addr add 10.9.0.1/24 dev ib0");
  ip("route add local 10.7.0.1/32 dev lo");
  ip("route add local 10.6.0.0/16 dev lo table 77");
  EXPECT_THAT(snapshot().local,
              UnorderedElementsAre(prefix("10.9.0.1", 32), prefix("10.7.0.1", 32)))
      << "those of the table local";
  ip("route add local 10.9.0.1/32 dev ib0 table 77");
  ip("route del local 10.9.0.1/32 dev ib0 table local");
  EXPECT_THAT(snapshot().local,
              UnorderedElementsAre(prefix("10.9.0.1", 32), prefix("10.6.0.0", 16)));
}

/// The interface is a TAP.
class BridgedTapTest : public NetlinkViewTest {
 protected:
  static constexpr MacAddress kOfTap{0x0200'0000'0001};
  static constexpr MacAddress kOfBridge{0x0200'0000'0077};

  void SetUp() override {
    NamespaceTest::SetUp();
    if (IsSkipped()) return;
    tun_ = TunDevice::open({.name = "ib0", .mac = kOfTap}).value();
    view_ = NetlinkView::open(tun_->interface_index()).value();
    if (std::system("ip link add br0 address 02:00:00:00:00:77 type bridge") != 0) {
      GTEST_SKIP() << "the kernel has no bridges";
    }
    ip("link set br0 up");
  }
  /// The first view that satisfies the condition.
  HostView until(const std::function<bool(const HostView&)>& holds) {
    for (;;) {
      const HostView view = snapshot();
      if (holds(view) || HasFailure()) return view;
    }
  }
};

TEST_F(BridgedTapTest, OnABridgeTheConfigurationIsThatOfTheBridge) {
  ip("addr add 10.9.0.1/24 dev br0");
  ip("link set ib0 master br0");
  const HostView view = until([](const HostView& v) { return v.mac == kOfBridge; });
  EXPECT_THAT(view.addresses, ::testing::Contains(prefix("10.9.0.1", 24)));
  ip("addr add 10.8.0.1/16 dev br0");
  EXPECT_THAT(until([](const HostView& v) { return v.addresses.size() > 1; }).addresses,
              ::testing::Contains(prefix("10.8.0.1", 16)));
  ip("route add 10.7.0.0/16 via 10.9.0.2 dev br0");
  (void)until([](const HostView& v) {
    return std::ranges::any_of(v.tables, [](const RoutingTable& table) {
      return std::ranges::any_of(table.routes, [](const HostRoute& route) {
        return route.destination == prefix("10.7.0.0", 16);
      });
    });
  });
  ip("link set ib0 nomaster");
  const HostView alone = until([](const HostView& v) { return v.mac == kOfTap; });
  EXPECT_THAT(alone.addresses, ::testing::Not(::testing::Contains(prefix("10.9.0.1", 24))));
}

TEST_F(BridgedTapTest, KnowsTheMacsOfAllInterfaces) {
  ip("addr add 10.9.0.1/24 dev ib0");
  const HostView view = until([](const HostView& v) { return !v.addresses.empty(); });
  EXPECT_THAT(view.macs, ::testing::IsSupersetOf({kOfTap, kOfBridge}));
  EXPECT_EQ(view.mac, kOfTap);
}

TEST_F(BridgedTapTest, KnowsTheAddressesOfMacvlanInterfaces) {
  constexpr MacAddress kOfMacvlan{0x0000'5e00'0133};
  const LinkAddress added{kOfMacvlan, *Ipv6Address::parse("fd09::9")};
  ip("link set ib0 up");
  ip("addr add 10.9.0.1/24 dev ib0");
  (void)until([](const HostView& v) { return !v.addresses.empty(); });
  ip("link add mv0 link ib0 address 00:00:5e:00:01:33 type macvlan mode bridge");
  (void)until([&](const HostView& v) { return std::ranges::count(v.macs, kOfMacvlan) == 1; });
  ip("addr add fd09::9/64 dev mv0 nodad");
  ip("link set mv0 up");
  const auto has = [&](const HostView& v) {
    return std::ranges::count(v.link_addresses, added) == 1;
  };
  (void)until(has);
  ip("addr del fd09::9/64 dev mv0");
  (void)until([&](const HostView& v) { return !has(v); });
}

class ArpPolicyTest : public NetlinkViewTest {
 protected:
  void SetUp() override {
    NetlinkViewTest::SetUp();
    if (IsSkipped()) return;
    ip("link set lo up");
    ip("addr add 10.9.0.1/24 dev ib0");
    ASSERT_TRUE(tun_->set_carrier(true));
    (void)snapshot();
  }
  static void set(const char* interface, const char* setting, const char* value) {
    ASSERT_TRUE(std::ofstream(std::string("/proc/sys/net/ipv4/conf/") + interface + "/" + setting)
                << value << std::flush);
  }
  /// The policy after the settings have been compared.
  [[nodiscard]] ArpPolicy policy() {
    (void)view_->check_arp_policy();
    const auto update = view_->update().value();
    if (update) last_ = update->arp;
    return last_;
  }
  ArpPolicy last_;
  std::vector<Ipv4Address> proxied_;
  static inline const Ipv4Address kPeer = *Ipv4Address::parse("10.9.0.2");
  static inline const Ipv4Address kOwn = *Ipv4Address::parse("10.9.0.1");
};

TEST_F(ArpPolicyTest, IsThatOfTheInterfaceAndOfAll) {
  EXPECT_EQ(policy(), ArpPolicy());
  set("all", "arp_ignore", "1");
  EXPECT_EQ(policy().ignore, 1) << "the larger one";
  set("ib0", "arp_ignore", "2");
  EXPECT_EQ(policy().ignore, 2);
  set("all", "arp_announce", "2");
  EXPECT_EQ(policy().announce, 2);
  set("ib0", "arp_filter", "1");
  EXPECT_TRUE(policy().filter);
  set("lo", "arp_filter", "1");
  set("ib0", "arp_filter", "0");
  EXPECT_FALSE(policy().filter);
  set("ib0", "proxy_arp", "1");
  EXPECT_FALSE(policy().proxy) << "does not forward";
  set("ib0", "forwarding", "1");
  EXPECT_TRUE(policy().proxy);
  EXPECT_FALSE(view_->check_arp_policy()) << "nothing has changed since";
  set("ib0", "proxy_arp", "0");
  set("ib0", "proxy_arp_pvlan", "1");
  EXPECT_TRUE(policy().proxy);
  set("ib0", "forwarding", "0");
  EXPECT_FALSE(policy().proxy) << "does not forward";
  set("ib0", "arp_ignore", "258");
  EXPECT_EQ(policy().ignore, 255) << "not 2";
}

TEST_F(ArpPolicyTest, AddressesOfLargerScopeAreMirrored) {
  ip("addr add 10.7.0.1/32 dev lo scope host");
  ip("addr add 10.7.0.2/32 dev lo scope link");
  ip("route add local 10.6.0.0/16 dev lo");
  EXPECT_THAT(snapshot().of_larger_scope,
              UnorderedElementsAre(kOwn, *Ipv4Address::parse("10.7.0.2")));
}

TEST_F(ArpPolicyTest, ProxiedNeighboursAreMirroredIfTheInterfaceForwards) {
  const Ipv4Address behind = *Ipv4Address::parse("10.8.0.9");
  const auto proxied = [&] {
    (void)view_->check_arp_policy();
    if (auto update = view_->update().value()) proxied_ = update->proxied;
    return proxied_;
  };
  ip("link add veth0 type veth peer name veth1");
  ip("link set veth0 up");
  ip("link set veth1 up");
  ip("addr add 10.8.0.1/24 dev veth0");
  set("all", "rp_filter", "0");
  ip("neigh add proxy 10.8.0.9 dev ib0");
  ip("neigh add proxy 10.8.0.8 dev veth0");
  EXPECT_THAT(proxied(), IsEmpty()) << "does not forward";
  EXPECT_FALSE(view_->permits_reply(behind, kPeer));
  set("ib0", "forwarding", "1");
  EXPECT_THAT(proxied(), ElementsAre(behind));
  EXPECT_TRUE(view_->permits_reply(behind, kPeer));
  EXPECT_FALSE(view_->permits_reply(*Ipv4Address::parse("10.8.0.7"), kPeer)) << "not proxied";
  ip("neigh add proxy 10.9.0.9 dev ib0");
  EXPECT_THAT(proxied(), SizeIs(2));
  EXPECT_FALSE(view_->permits_reply(*Ipv4Address::parse("10.9.0.9"), kPeer)) << "it is on the link";
  ip("neigh del proxy 10.8.0.9 dev ib0");
  EXPECT_THAT(proxied(), SizeIs(1));
  EXPECT_FALSE(view_->permits_reply(behind, kPeer));
}

TEST_F(ArpPolicyTest, ProxiedNeighboursAreSorted) {
  for (const int last : {7, 200, 9, 31, 8, 77}) {
    ip("neigh add proxy 10.8.0." + std::to_string(last) + " dev ib0");
  }
  set("ib0", "forwarding", "1");
  (void)view_->check_arp_policy();
  const auto proxied = snapshot().proxied;
  EXPECT_THAT(proxied, SizeIs(6));
  EXPECT_TRUE(std::ranges::is_sorted(proxied));
}

TEST_F(ArpPolicyTest, MirrorsALimitedNumberOfProxiedNeighbours) {
  ip("-batch - <<END\n$(for i in $(seq 0 " + std::to_string(HostView::kMaxProxied) +
     "); do echo \"neigh add proxy 10.8.$((i / 256)).$((i % 256)) dev ib0\"; done)\nEND");
  set("ib0", "forwarding", "1");
  (void)view_->check_arp_policy();
  EXPECT_THAT(snapshot().proxied, SizeIs(HostView::kMaxProxied));
}

TEST_F(ArpPolicyTest, ProxyRepliesForAddressesThatAreRoutedElsewhere) {
  ip("link add veth0 type veth peer name veth1");
  ip("link set veth0 up");
  ip("link set veth1 up");
  ip("addr add 10.8.0.1/24 dev veth0");
  set("ib0", "forwarding", "1");
  set("all", "rp_filter", "0");
  (void)policy();
  const Ipv4Address behind = *Ipv4Address::parse("10.8.0.9");
  const Ipv4Address beside = *Ipv4Address::parse("10.9.0.9");
  EXPECT_FALSE(view_->permits_reply(behind, kPeer)) << "no proxy";
  set("ib0", "proxy_arp", "1");
  EXPECT_TRUE(view_->permits_reply(behind, kPeer));
  EXPECT_FALSE(view_->permits_reply(beside, kPeer)) << "it is on the link";
  EXPECT_FALSE(view_->permits_reply(*Ipv4Address::parse("10.3.0.9"), kPeer)) << "no route";
  EXPECT_FALSE(view_->permits_reply(*Ipv4Address::parse("10.9.0.255"), kPeer)) << "a broadcast";
  set("ib0", "proxy_arp_pvlan", "1");
  EXPECT_TRUE(view_->permits_reply(beside, kPeer));
  EXPECT_FALSE(view_->permits_reply(kPeer, kPeer)) << "its own address";
}

TEST_F(ArpPolicyTest, FilterRepliesIfPacketsToTheSenderLeaveByTheInterface) {
  ip("link add veth0 type veth peer name veth1");
  ip("link set veth0 up");
  ip("link set veth1 up");
  EXPECT_TRUE(view_->permits_reply(kOwn, kPeer));
  ip("route add 10.9.0.2/32 dev veth0");
  EXPECT_FALSE(view_->permits_reply(kOwn, kPeer));
}

TEST_F(NetlinkViewTest, MirrorsGroupsThatTheHostIsIn) {
  ip("addr add 10.9.0.1/24 dev ib0");
  (void)snapshot();
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ip_mreqn request{};
  request.imr_multiaddr.s_addr = inet_addr("239.1.2.3");
  request.imr_ifindex = tun_->interface_index();
  ASSERT_EQ(setsockopt(socket.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request), 0);
  const FileDescriptor socket6(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ipv6_mreq request6{};
  ASSERT_EQ(inet_pton(AF_INET6, "ff15::7", &request6.ipv6mr_multiaddr), 1);
  request6.ipv6mr_interface = static_cast<unsigned>(tun_->interface_index());
  ASSERT_EQ(setsockopt(socket6.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &request6, sizeof request6),
            0);
  view_->expect_change();
  const HostView view = snapshot();
  EXPECT_EQ(std::ranges::count(view.groups, IpAddress(*Ipv4Address::parse("239.1.2.3"))), 1);
  EXPECT_EQ(std::ranges::count(view.groups, IpAddress(*Ipv6Address::parse("ff15::7"))), 1);
}

class LinkLocalTest : public NetlinkViewTest {
 protected:
  void SetUp() override {
    NetlinkViewTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(tun_->set_carrier(true));
    view_ = NetlinkView::open(tun_->interface_index(), kAddress).value();
  }
  /// Handles all pending events; returns whether the interface has the address.
  bool has_address() {
    while (view_->take_events() != Pending::none) (void)view_->update().value();
    return std::system("ip -6 addr show dev ib0 | grep -q fe80::11:22:33:44/64") == 0;
  }
  static void disable_ipv6(const char* value) {
    ASSERT_TRUE(std::ofstream("/proc/sys/net/ipv6/conf/ib0/disable_ipv6") << value << std::flush);
  }

  const Ipv6Address kAddress = *Ipv6Address::parse("fe80::11:22:33:44");
};

TEST_F(LinkLocalTest, ReturnsAfterTheInterfaceWasDownBriefly) {
  EXPECT_TRUE(has_address());
  ip("-batch - <<END\nlink set ib0 down\nlink set ib0 up\nEND");
  EXPECT_TRUE(has_address());
  ip("link set ib0 down");
  EXPECT_FALSE(has_address());
  ip("link set ib0 up");
  EXPECT_TRUE(has_address());
}

TEST_F(LinkLocalTest, ReturnsAfterIpv6WasDisabledBriefly) {
  EXPECT_TRUE(has_address());
  disable_ipv6("1");
  disable_ipv6("0");
  EXPECT_TRUE(has_address());
  disable_ipv6("1");
  EXPECT_FALSE(has_address());
  disable_ipv6("0");
  EXPECT_TRUE(has_address());
}

TEST_F(LinkLocalTest, ReturnsAfterTheMtuWasTooSmallForIpv6) {
  EXPECT_TRUE(has_address());
  ip("-batch - <<END\nlink set ib0 mtu 1200\nlink set ib0 mtu 1500\nEND");
  EXPECT_TRUE(has_address());
  ip("-d link show dev ib0 | grep -q 'addrgenmode none'");
  ip("link set ib0 mtu 1200");
  EXPECT_FALSE(has_address());
  ip("link set ib0 mtu 1280");
  EXPECT_TRUE(has_address());
  EXPECT_EQ(std::system("ip -d link show dev ib0 | grep -q 'addrgenmode none'"), 0);
}

TEST_F(LinkLocalTest, ReturnsAfterNotificationsWereLost) {
  EXPECT_TRUE(has_address());
  // The buffer is full before the interface goes down.
  ip("-6 -batch - <<END\n$(for i in $(seq 4000); do"
     " echo \"addr add fd07::1:$i/128 dev lo nodad\"; done)\nEND");
  ip("-batch - <<END\nlink set ib0 down\nlink set ib0 up\nEND");
  EXPECT_TRUE(has_address());
}

/// The advertisement of an address by its owner.
std::vector<std::uint8_t> advertisement_of(const Ipv6Address& address) {
  std::vector<std::uint8_t> packet(40 + 24);
  packet[0] = 0x60;
  packet[5] = 24;
  packet[6] = 58;
  packet[7] = 255;
  const auto own = address.bytes();
  const auto all_nodes = Ipv6Address::parse("ff02::1")->bytes();
  std::ranges::copy(own, packet.begin() + 8);
  std::ranges::copy(all_nodes, packet.begin() + 24);
  packet[40] = 136;
  packet[44] = 0x20;  // override
  std::ranges::copy(own, packet.begin() + 48);
  const auto checksum = wire::InternetChecksum()
                            .add_pseudo_header(address, *Ipv6Address::parse("ff02::1"), 58, 24)
                            .add(ConstBytes(packet).subspan(40))
                            .value();
  store_be(&packet[42], checksum);
  return packet;
}

// Duplicate address detection lasts a second for each transmission.
void prolong_duplicate_address_detection() {
  ASSERT_TRUE(std::ofstream("/proc/sys/net/ipv6/conf/ib0/dad_transmits") << "60" << std::flush);
}

/// Another host has the address. Until the kernel has begun to detect duplicates, which it does a
/// little later than it adds the address, it ignores that, so it is said again. Returns whether
/// `is_noticed`.
[[nodiscard]] bool advertise(TunDevice& tun, const Ipv6Address& address,
                             const std::function<bool()>& is_noticed) {
  const auto packet = advertisement_of(address);
  for (int tries = 0; tries < 1000; ++tries) {
    EXPECT_TRUE(tun.write(packet));
    if (is_noticed()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(LinkLocalTest, IsNoDuplicateIfAnotherAddressIsOne) {
  prolong_duplicate_address_detection();
  EXPECT_TRUE(has_address());
  ip("-6 addr add fd07::9/64 dev ib0");
  EXPECT_TRUE(advertise(*tun_, *Ipv6Address::parse("fd07::9"), [this] {
    EXPECT_TRUE(has_address());
    return std::system("ip -6 addr show dev ib0 | grep -q 'fd07::9.*dadfailed'") == 0;
  }));
  view_->expect_change();
  EXPECT_TRUE(has_address());
  EXPECT_FALSE(view_->link_local_is_duplicate());
}

TEST_F(LinkLocalTest, IsADuplicateIfAnotherHostHasIt) {
  prolong_duplicate_address_detection();
  EXPECT_TRUE(has_address());
  EXPECT_FALSE(view_->link_local_is_duplicate());
  // It arrives while the kernel detects duplicates (RFC 4862, 5.4.4).
  EXPECT_TRUE(advertise(*tun_, kAddress, [this] {
    (void)has_address();
    return view_->link_local_is_duplicate();
  }));
  ip("link set ib0 down");
  EXPECT_FALSE(has_address());
  EXPECT_FALSE(view_->link_local_is_duplicate()) << "there is no address any more";
}

TEST_F(LinkLocalTest, IsKeptIfTheInterfaceHasItAlready) {
  ip("-6 addr add fe80::11:22:33:44/64 dev ib0");
  EXPECT_TRUE(view_->update());
  EXPECT_TRUE(has_address());
}

TEST_F(LinkLocalTest, IsReplaced) {
  EXPECT_TRUE(has_address());
  // Duplicate address detection ends with a notification.
  while (std::system("ip -6 addr show dev ib0 tentative | grep -q fe80") == 0) {
    ASSERT_TRUE(test::wait_readable(view_->descriptor()));
    EXPECT_TRUE(has_address());
  }
  EXPECT_TRUE(has_address());
  EXPECT_EQ(view_->take_events(), Pending::none);
  view_->set_link_local(*Ipv6Address::parse("fe80::5"));
  EXPECT_FALSE(has_address());
  ip("-6 addr show dev ib0 | grep -q fe80::5/64");
}

TEST_F(LinkLocalTest, IsReplacedTwiceAtOnce) {
  EXPECT_TRUE(has_address());
  view_->set_link_local(*Ipv6Address::parse("fe80::5"));
  view_->set_link_local(*Ipv6Address::parse("fe80::6"));
  EXPECT_FALSE(has_address()) << "the first one is removed";
  ip("-6 addr show dev ib0 | grep -q fe80::6/64");
}

TEST_F(LinkLocalTest, StaysDeletedAfterTheOperatorDeletesIt) {
  EXPECT_TRUE(has_address());
  ip("addr del fe80::11:22:33:44/64 dev ib0");
  EXPECT_FALSE(has_address());
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_FALSE(has_address());
  ip("link set ib0 txqueuelen 77");
  EXPECT_FALSE(has_address()) << "after a change of the interface, too";
}

TEST_F(NetlinkViewTest, ReadsALimitedNumberOfEventsAtATime) {
  (void)view_->update().value();
  const auto add = [](int count) {
    ip("-6 -batch - <<END\n$(for i in $(seq " + std::to_string(count) +
       "); do echo \"addr replace fd07::1:$i/128 dev lo nodad\"; done)\nEND");
  };
  add(kMaxEventReads + 20);
  EXPECT_EQ(view_->take_events(), Pending::none) << "of another interface";
  EXPECT_TRUE(test::wait_readable(view_->descriptor())) << "not all of them";
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 24)));
}

TEST_F(NetlinkViewTest, TakesAnOverflowForAChange) {
  (void)view_->update().value();
  ip("-6 addr add fd07::1/128 dev lo nodad");
  EXPECT_EQ(view_->take_events(), Pending::none) << "of another interface";
  ip("-6 -batch - <<END\n$(for i in $(seq 4000); do"
     " echo \"addr add fd07::1:$i/128 dev lo nodad\"; done)\nEND");
  EXPECT_EQ(view_->take_events(), Pending::any) << "any notification may have been lost";
}

TEST_F(NetlinkViewTest, NoticesANewName) {
  EXPECT_EQ(view_->interface_name(), "ib0");
  ip("link set ib0 down");
  ip("link set ib0 name iby");
  while (view_->interface_name() == "ib0" && test::wait_readable(view_->descriptor())) {
    (void)view_->update().value();
  }
  EXPECT_EQ(view_->interface_name(), "iby");
}

TEST_F(NetlinkViewTest, SurvivesMoreNotificationsThanItsSocketHolds) {
  // Two notifications per address: far more than the socket's buffer holds.
  ip("-batch - <<END\n$(for i in $(seq 4000); do"
     " echo \"addr add 10.9.$((i / 250)).$((i % 250 + 1))/32 dev ib0\"; done)\nEND");
  EXPECT_EQ(snapshot().addresses.size(), 4000U);
  ip("addr flush dev ib0");
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses, ElementsAre(prefix("10.9.0.1", 24)));
}

}  // namespace
}  // namespace ipoib::linux
