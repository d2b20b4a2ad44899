// The choice of the next hop from the host's routes and rules.
#include "link/next_hops.hpp"

#include <gtest/gtest.h>

#include <map>

namespace ipoib::link {
namespace {

constexpr std::uint32_t kMain = 254;

IpAddress ip(std::string_view text) { return *parse_ip_address(text); }

HostRoute route(std::string_view destination, std::uint8_t bits,
                std::initializer_list<std::string_view> gateways, std::uint32_t metric = 0) {
  HostRoute result{.destination = {ip(destination), bits}, .metric = metric, .hops = {}};
  for (const auto gateway : gateways) result.hops.push_back({.gateway = ip(gateway), .weight = 1});
  if (result.hops.empty()) result.hops.push_back({});
  return result;
}

class NextHopsTest : public ::testing::Test {
 protected:
  NextHopsTest() {
    for (const auto family : {IpFamily::v4, IpFamily::v6}) {
      view.rules.push_back({.family = family, .table = kMain});
    }
  }
  void add(const HostRoute& added, std::uint32_t table = kMain) {
    for (RoutingTable& existing : view.tables) {
      if (existing.id == table) return existing.routes.push_back(added);
    }
    view.tables.push_back({.id = table, .routes = {added}});
  }
  [[nodiscard]] std::string hop(std::string_view to, std::string_view from = "10.44.0.1") {
    return to_string(hops.find(ip(from), ip(to)));
  }

  HostView view;
  NextHops hops;
};

TEST_F(NextHopsTest, WithoutRoutesEachDestinationIsItsOwnNextHop) {
  EXPECT_EQ(hop("10.44.0.2"), "10.44.0.2");
  EXPECT_EQ(hop("fd00::2", "fd00::1"), "fd00::2");
}

TEST_F(NextHopsTest, TakesTheLongestPrefix) {
  add(route("10.44.0.0", 24, {}));
  add(route("10.0.0.0", 8, {"10.44.0.8"}));
  add(route("10.45.0.0", 16, {"10.44.0.9"}));
  add(route("0.0.0.0", 0, {"10.44.0.254"}));
  add(route("10.45.1.1", 32, {}));
  hops.update(view);
  EXPECT_EQ(hop("10.44.0.2"), "10.44.0.2");
  EXPECT_EQ(hop("10.1.2.3"), "10.44.0.8");
  EXPECT_EQ(hop("10.45.2.3"), "10.44.0.9");
  EXPECT_EQ(hop("10.45.1.1"), "10.45.1.1");
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.254");
}

TEST_F(NextHopsTest, PrefixLengthsThatAreNotMultiplesOfEight) {
  add(route("10.64.0.0", 10, {"10.44.0.8"}));
  add(route("fd00::8000", 113, {"fe80::8"}));
  hops.update(view);
  EXPECT_EQ(hop("10.127.255.255"), "10.44.0.8");
  EXPECT_EQ(hop("10.128.0.0"), "10.128.0.0");
  EXPECT_EQ(hop("fd00::ffff", "fd00::1"), "fe80::8");
  EXPECT_EQ(hop("fd00::7fff", "fd00::1"), "fd00::7fff");
}

TEST_F(NextHopsTest, FamiliesHaveSeparateRoutes) {
  add(route("0.0.0.0", 0, {"10.44.0.254"}));
  add(route("::", 0, {"fe80::1"}));
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.254");
  EXPECT_EQ(hop("2001:db8::1", "fd00::1"), "fe80::1");
}

TEST_F(NextHopsTest, AnIpv4RouteMayHaveAnIpv6Gateway) {
  add(route("0.0.0.0", 0, {"fe80::1"}));
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "fe80::1");
}

TEST_F(NextHopsTest, TheLowestMetricWins) {
  add(route("0.0.0.0", 0, {"10.44.0.3"}, 200));
  add(route("0.0.0.0", 0, {"10.44.0.2"}, 100));
  add(route("0.0.0.0", 0, {"10.44.0.4"}, 300));
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.2");
}

TEST_F(NextHopsTest, UpdateInvalidatesTheCache) {
  add(route("0.0.0.0", 0, {"10.44.0.2"}));
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.2");
  view.tables.clear();
  add(route("0.0.0.0", 0, {"10.44.0.3"}));
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.3");
}

TEST_F(NextHopsTest, SeveralNextHopsShareByWeightAndAFlowKeepsItsNextHop) {
  HostRoute shared = route("0.0.0.0", 0, {"10.44.0.2", "10.44.0.3"});
  shared.hops[0].weight = 3;
  add(shared);
  hops.update(view);
  std::map<std::string, int> counts;
  for (std::uint32_t i = 0; i < 4000; ++i) {
    const std::string to = Ipv4Address(0x08000000 + i).to_string();
    const std::string first = hop(to);
    ++counts[first];
    EXPECT_EQ(hop(to), first);
  }
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_GT(counts["10.44.0.2"], 2 * counts["10.44.0.3"]);
  EXPECT_GT(counts["10.44.0.3"], 500);
}

TEST_F(NextHopsTest, RulesAreAppliedInTheirOrder) {
  view.rules.insert(view.rules.begin(), {
                                            .family = IpFamily::v4,
                                            .table = 100,
                                            .source = IpPrefix{ip("10.44.0.1"), 32},
                                        });
  add(route("0.0.0.0", 0, {"10.44.0.2"}));
  add(route("0.0.0.0", 0, {"10.44.0.3"}), 100);
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8", "10.44.0.1"), "10.44.0.3");
  EXPECT_EQ(hop("8.8.8.8", "10.44.0.9"), "10.44.0.2");
}

TEST_F(NextHopsTest, RuleWithoutAMatchingRouteIsSkipped) {
  view.rules.insert(view.rules.begin(), {.family = IpFamily::v4, .table = 100});
  add(route("10.9.0.0", 16, {"10.44.0.3"}), 100);
  add(route("0.0.0.0", 0, {"10.44.0.2"}));
  hops.update(view);
  EXPECT_EQ(hop("10.9.1.1"), "10.44.0.3");
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.2");
}

TEST_F(NextHopsTest, RulesWithInvisibleConditionsComeLast) {
  view.rules.insert(view.rules.begin(),
                    {.family = IpFamily::v4, .table = 100, .is_certain = false});
  add(route("0.0.0.0", 0, {"10.44.0.3"}), 100);
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.3") << "no other rule has a route";
  add(route("0.0.0.0", 0, {"10.44.0.2"}));
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.2");
}

TEST_F(NextHopsTest, RuleMaySuppressShortPrefixes) {
  view.rules.front().ignored_bits = 0;
  view.rules.insert(view.rules.begin() + 1, {.family = IpFamily::v4, .table = 100});
  add(route("0.0.0.0", 0, {"10.44.0.2"}));
  add(route("10.9.0.0", 16, {"10.44.0.2"}));
  add(route("0.0.0.0", 0, {"10.44.0.3"}), 100);
  hops.update(view);
  EXPECT_EQ(hop("10.9.1.1"), "10.44.0.2");
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.3");
}

TEST_F(NextHopsTest, TableWithoutARuleComesLast) {
  add(route("10.9.0.0", 16, {"10.44.0.3"}), 100);
  add(route("10.8.0.0", 16, {"10.44.0.2"}));
  hops.update(view);
  EXPECT_EQ(hop("10.9.1.1"), "10.44.0.3");
}

}  // namespace
}  // namespace ipoib::link
