// The copy of the kernel's routing tables follows what the kernel announces.
#include <gtest/gtest.h>

#include <set>

#include "link/next_hops.hpp"

namespace ipoib::link {
namespace {

class RouteChanges : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kMain = 254;
  using Position = RouteAdded::Position;

  static IpAddress ip(std::string_view text) { return *parse_ip_address(text); }

  static HostRoute route(std::string_view destination, std::uint8_t bits,
                         std::initializer_list<std::string_view> gateways,
                         std::uint32_t metric = 0) {
    HostRoute result{.destination = {ip(destination), bits}, .metric = metric, .hops = {}};
    for (const auto gateway : gateways)
      result.hops.push_back({.gateway = ip(gateway), .weight = 1});
    return result;
  }
  static HostRoute on_link(std::string_view destination, std::uint8_t bits) {
    return {.destination = {ip(destination), bits}, .metric = 0, .hops = {RouteHop{}}};
  }
  static HostRoute with_object(std::string_view destination, std::uint8_t bits, std::uint32_t id) {
    HostRoute result{.destination = {ip(destination), bits}, .metric = 0, .hops = {}};
    result.nexthop = id;
    return result;
  }
  static NextHopObject object(std::uint32_t id, std::string_view gateway) {
    return {.id = id, .hop = RouteHop{ip(gateway), 1}};
  }

  RouteChanges() {
    for (const auto family : {IpFamily::v4, IpFamily::v6}) {
      view.rules.push_back({.family = family, .table = kMain, .priority = 32766});
    }
    hops.update(view);
  }
  void added(const HostRoute& route, Position position = Position::first,
             std::uint32_t table = kMain) {
    hops.apply(RouteAdded{table, route, position});
  }
  void removed(const HostRoute& route, std::uint32_t table = kMain) {
    hops.apply(RouteRemoved{table, route});
  }
  /// The next hop; empty if no route covers the destination.
  [[nodiscard]] std::string hop(std::string_view to, std::string_view from = "10.44.0.1") {
    const Flow flow{.source = ip(from), .destination = ip(to)};
    return hops.covers(flow) ? to_string(hops.find(flow)) : "";
  }
  [[nodiscard]] std::string hop6(std::string_view to) { return hop(to, "fd00::1"); }

  class Gateways : public Reachability {
   public:
    [[nodiscard]] Level level_of(const IpAddress&) const override { return Level::unknown; }
    void watch(std::set<IpAddress> gateways) override {
      watched = std::move(gateways);
      ++calls;
    }
    [[nodiscard]] std::uint64_t level_changes() const override { return 0; }
    std::set<IpAddress> watched;
    int calls = 0;
  };

  HostView view;
  Gateways gateways;
  NextHops hops{gateways, HashKey(1, 2)};
};

TEST_F(RouteChanges, WithoutARouteNothingIsCovered) {
  EXPECT_EQ(hop("10.44.0.2"), "");
  EXPECT_EQ(hop6("fd00::2"), "");
}

TEST_F(RouteChanges, AnAddedRouteIsFollowedAtOnce) {
  added(on_link("10.0.0.0", 8));
  EXPECT_EQ(hop("10.45.0.1"), "10.45.0.1");
  added(route("10.45.0.0", 16, {"10.44.0.9"}));
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.9");
  EXPECT_EQ(hop("10.46.0.1"), "10.46.0.1");
  added(route("10.45.0.0", 24, {"10.44.0.8"}));
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.8") << "a longer prefix that came later";
  EXPECT_EQ(hop("10.45.1.1"), "10.44.0.9");
}

TEST_F(RouteChanges, ARemovedRouteIsNoLongerFollowed) {
  added(route("0.0.0.0", 0, {"10.44.0.254"}));
  added(route("10.45.0.0", 16, {"10.44.0.9"}));
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.9");
  removed(route("10.45.0.0", 16, {"10.44.0.8"}));
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.9") << "another route was removed";
  removed(route("10.45.0.0", 16, {"10.44.0.9"}));
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.254");
  removed(route("0.0.0.0", 0, {"10.44.0.254"}));
  EXPECT_EQ(hop("10.45.0.1"), "");
}

TEST_F(RouteChanges, AReplacedRouteIsNoLongerFollowed) {
  added(route("10.45.0.0", 16, {"10.44.0.9"}));
  added(route("10.45.0.0", 16, {"10.44.0.8"}, 100));
  added(route("10.45.0.0", 16, {"10.44.0.7"}), Position::instead);
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.7");
  removed(route("10.45.0.0", 16, {"10.44.0.7"}));
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.8") << "that of another metric is left";
}

TEST_F(RouteChanges, ARouteThroughAnotherInterfaceReplacesOneOfThis) {
  added(route("0.0.0.0", 0, {"10.44.0.254"}));
  added(route("10.45.0.0", 16, {"10.44.0.9"}));
  added(route("10.45.0.0", 16, {}), Position::instead);
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.254");
  added(route("10.46.0.0", 16, {}));
  EXPECT_EQ(hop("10.46.0.1"), "10.44.0.254") << "such a route is not kept";
}

TEST_F(RouteChanges, TheFirstOfEqualRoutesIsReplaced) {
  added(route("10.45.0.0", 16, {"10.44.0.1"}));
  added(route("10.45.0.0", 16, {"10.44.0.2"}), Position::last);
  added(route("10.45.0.0", 16, {"10.44.0.3"}), Position::instead);
  added(route("10.45.0.0", 16, {"10.44.0.4"}), Position::last);
  removed(route("10.45.0.0", 16, {"10.44.0.2"}));
  removed(route("10.45.0.0", 16, {"10.44.0.4"}));
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.3");
}

TEST_F(RouteChanges, AChangeMayBeMadeAgain) {
  view.tables = {{kMain, {route("10.45.0.0", 16, {"10.44.0.2"})}}};
  hops.update(view);
  for (int i = 0; i < 2; ++i) {
    added(route("10.45.0.0", 16, {"10.44.0.9"}), Position::instead);
    added(route("10.45.0.0", 16, {"10.44.0.2"}), Position::instead);
  }
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.2");
  added(route("10.45.0.0", 16, {"10.44.0.2"}));
  removed(route("10.45.0.0", 16, {"10.44.0.2"}));
  EXPECT_EQ(hop("10.45.0.1"), "") << "there was one";
}

/// The kernel announces an IPv6 route with all its next hops when one is added, and each next hop
/// alone when it goes.
TEST_F(RouteChanges, NextHopsOfAnIpv6RouteComeTogetherAndGoAlone) {
  added(route("fd50::", 16, {"fd00::2"}));
  added(route("fd50::", 16, {"fd00::2", "fd00::3"}), Position::last);
  std::set<std::string> used;
  for (int i = 0; i < 100; ++i) used.insert(hop6("fd50::1:" + std::to_string(i)));
  EXPECT_EQ(used, (std::set<std::string>{"fd00::2", "fd00::3"}));
  removed(route("fd50::", 16, {"fd00::2"}));
  EXPECT_EQ(hop6("fd50::1"), "fd00::3");
  removed(route("fd50::", 16, {"fd00::3"}));
  EXPECT_EQ(hop6("fd50::1"), "");
}

TEST_F(RouteChanges, AReplacedIpv6RouteIsNoLongerFollowed) {
  added(route("fd50::", 16, {"fd00::2", "fd00::3"}));
  added(route("fd50::", 16, {"fd00::4"}), Position::instead);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(hop6("fd50::1:" + std::to_string(i)), "fd00::4");
}

TEST_F(RouteChanges, ARouteFollowsItsNexthopObject) {
  hops.apply(NextHopChanged{object(7, "fd00::2")});
  added(with_object("fd50::", 16, 7));
  EXPECT_EQ(hop6("fd50::1"), "fd00::2");
  hops.apply(NextHopChanged{object(7, "fd00::3")});
  EXPECT_EQ(hop6("fd50::1"), "fd00::3");
  hops.apply(NextHopChanged{object(8, "fd00::8")});
  EXPECT_EQ(hop6("fd50::1"), "fd00::3") << "another object";
  hops.apply(NextHopChanged{{.id = 7}, false});
  EXPECT_EQ(hop6("fd50::1"), "");
  hops.apply(NextHopChanged{object(7, "fd00::2")});
  EXPECT_EQ(hop6("fd50::1"), "") << "the route went with the object";
}

TEST_F(RouteChanges, AGroupOfObjectsFollowsItsMembers) {
  view.nexthops = {
      object(7, "10.44.0.7"), object(8, "10.44.0.8"), {.id = 9, .members = {{7, 1}, {8, 1}}}};
  HostRoute by_group = with_object("10.45.0.0", 16, 9);
  by_group.hops = {RouteHop{ip("10.44.0.7"), 1}, RouteHop{ip("10.44.0.8"), 1}};
  view.tables = {{kMain, {by_group}}};
  hops.update(view);
  hops.apply(NextHopChanged{object(8, "10.44.0.7")});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(hop("10.45.0." + std::to_string(i)), "10.44.0.7");
  hops.apply(NextHopChanged{{.id = 8}, false});
  hops.apply(NextHopChanged{object(7, "10.44.0.5")});
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.5");
  hops.apply(NextHopChanged{{.id = 7}, false});
  EXPECT_EQ(hop("10.45.0.1"), "") << "no member is left";
}

TEST_F(RouteChanges, RoutesGoWithTheirSourceAddress) {
  added(route("0.0.0.0", 0, {"10.44.0.254"}));
  HostRoute from_second = route("10.45.0.0", 16, {"10.44.0.9"});
  from_second.source = ip("10.44.0.2");
  added(from_second);
  hops.apply(SourceRemoved{ip("10.44.0.3")});
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.9");
  hops.apply(SourceRemoved{ip("10.44.0.2")});
  EXPECT_EQ(hop("10.45.0.1"), "10.44.0.254");
}

TEST_F(RouteChanges, NoRouteIsLeftWhenTheInterfaceGoesDown) {
  added(route("0.0.0.0", 0, {"10.44.0.254"}));
  added(with_object("fd50::", 16, 7));
  hops.apply(RoutesCleared{});
  hops.apply(NextHopChanged{object(7, "fd00::2")});
  EXPECT_EQ(hop("8.8.8.8"), "");
  EXPECT_EQ(hop6("fd50::1"), "");
}

TEST_F(RouteChanges, RulesAreFollowedInTheirOrder) {
  constexpr std::uint32_t kOther = 100;
  added(route("0.0.0.0", 0, {"10.44.0.254"}));
  added(route("0.0.0.0", 0, {"10.44.0.100"}), Position::first, kOther);
  added(route("::", 0, {"fd00::fe"}));
  added(route("::", 0, {"fd00::64"}), Position::first, kOther);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.254");
  RoutingRule to_other{.family = IpFamily::v6, .table = kOther, .priority = 40000};
  hops.apply(RuleChanged{to_other});
  EXPECT_EQ(hop6("2001:db8::1"), "fd00::fe") << "after that of the main table";
  hops.apply(RuleChanged{to_other, false});
  to_other.priority = 1000;
  hops.apply(RuleChanged{to_other});
  EXPECT_EQ(hop6("2001:db8::1"), "fd00::64");
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.254") << "of another family";
  hops.apply(RuleChanged{to_other, false});
  EXPECT_EQ(hop6("2001:db8::1"), "fd00::fe");
}

TEST_F(RouteChanges, ARuleByProtocolNeedsTheHeaders) {
  EXPECT_FALSE(hops.needs_headers());
  RoutingRule rule{.family = IpFamily::v4, .table = 100};
  rule.protocol = 17;
  hops.apply(RuleChanged{rule});
  EXPECT_TRUE(hops.needs_headers());
}

TEST_F(RouteChanges, ARouteByTosNeedsTheHeaders) {
  HostRoute by_tos = route("10.45.0.0", 16, {"10.44.0.9"});
  by_tos.tos = 0x10;
  added(by_tos);
  EXPECT_TRUE(hops.needs_headers());
}

TEST_F(RouteChanges, NewAlternativesAreWatched) {
  added(route("10.45.0.0", 16, {"10.44.0.8"}));
  const int before = gateways.calls;
  EXPECT_TRUE(gateways.watched.empty());
  added(route("10.45.0.0", 16, {"10.44.0.9"}), Position::last);
  EXPECT_EQ(gateways.watched, (std::set{ip("10.44.0.8"), ip("10.44.0.9")}));
  added(route("10.46.0.0", 16, {"10.44.0.8"}));
  EXPECT_EQ(gateways.calls, before + 1) << "only if there are new ones";
}

TEST_F(RouteChanges, RoutesAreLimited) {
  for (std::uint32_t i = 0; i <= HostView::kMaxRoutes; ++i) {
    const auto to = Ipv4Address(0x0b000000 + (i << 8));
    added({.destination = {to, 24}, .metric = 0, .hops = {RouteHop{ip("10.44.0.9"), 1}}});
  }
  EXPECT_EQ(hop("11.0.0.1"), "10.44.0.9");
  EXPECT_EQ(hop("12.0.0.1"), "") << "the last one";
  removed(route("11.0.0.0", 24, {"10.44.0.9"}));
  added(route("12.0.0.0", 24, {"10.44.0.9"}));
  EXPECT_EQ(hop("12.0.0.1"), "10.44.0.9") << "there is room again";
}

}  // namespace
}  // namespace ipoib::link
