// The choice of the next hop from the host's routes and rules.
#include "link/next_hops.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

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
    return to_string(hops.find({.source = ip(from), .destination = ip(to)}));
  }
  [[nodiscard]] std::string hop(const Flow& flow) { return to_string(hops.find(flow)); }

  class Gateways : public Reachability {
   public:
    [[nodiscard]] Level level_of(const IpAddress& neighbour) const override {
      const auto at = levels.find(neighbour);
      return at != levels.end() ? at->second : Level::unknown;
    }
    void watch(std::set<IpAddress> gateways) override { watched = std::move(gateways); }
    [[nodiscard]] std::uint64_t level_changes() const override { return changes; }
    std::set<IpAddress> watched;
    std::map<IpAddress, Level> levels;
    std::uint64_t changes = 0;
  };
  void set_level(std::string_view gateway, Reachability::Level level) {
    gateways.levels[ip(gateway)] = level;
    ++gateways.changes;
  }
  using Level = Reachability::Level;

  HostView view;
  Gateways gateways;
  NextHops hops{gateways, HashKey(1, 2)};
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

TEST_F(NextHopsTest, PrefixLengthsNeedNotBeMultiplesOfEight) {
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

// --- Conditions of rules that a packet shows -----------------------------------------------------

class RuleConditions : public NextHopsTest {
 protected:
  /// The rule comes first, and leads to 10.44.0.3; others lead to 10.44.0.2.
  void with_rule(RoutingRule rule) {
    rule.table = 100;
    view.rules.insert(view.rules.begin(), rule);
    add(route("0.0.0.0", 0, {"10.44.0.3"}), 100);
    add(route("0.0.0.0", 0, {"10.44.0.2"}));
    hops.update(view);
  }
  [[nodiscard]] bool applies(const Flow& to) { return hop(to) == "10.44.0.3"; }
  Flow flow{.source = ip("10.44.0.1"), .destination = ip("8.8.8.8")};
};

TEST_F(RuleConditions, WithoutAnyNoHeaderIsNeeded) {
  with_rule({.source = IpPrefix{ip("10.44.0.1"), 32}});
  EXPECT_FALSE(hops.needs_headers());
  EXPECT_TRUE(applies(flow));
}

TEST_F(RuleConditions, Tos) {
  with_rule({.tos = 0x10});
  EXPECT_TRUE(hops.needs_headers());
  EXPECT_FALSE(applies(flow));
  flow.tos = 0x10;
  EXPECT_TRUE(applies(flow));
  flow.tos = 0x12;
  EXPECT_TRUE(applies(flow)) << "the bits of ECN do not count";
}

TEST_F(RuleConditions, Protocol) {
  with_rule({.protocol = 17});
  flow.protocol = 6;
  EXPECT_FALSE(applies(flow));
  flow.protocol = 17;
  EXPECT_TRUE(applies(flow));
}

TEST_F(RuleConditions, PortsAreRanges) {
  with_rule({.source_ports = PortRange{1000, 1001}, .destination_ports = PortRange{53, 53}});
  flow.has_ports = true;
  flow.source_port = 1000;
  flow.destination_port = 53;
  EXPECT_TRUE(applies(flow));
  flow.source_port = 1001;
  EXPECT_TRUE(applies(flow));
  flow.source_port = 1002;
  EXPECT_FALSE(applies(flow));
  flow.source_port = 999;
  EXPECT_FALSE(applies(flow));
  flow.source_port = 1000;
  flow.destination_port = 54;
  EXPECT_FALSE(applies(flow));
  flow.has_ports = false;
  EXPECT_FALSE(applies(flow)) << "not known: other rules come first";
}

TEST_F(RuleConditions, InputInterface) {
  with_rule({.input = RoutingRule::Input::host});
  flow.is_of_host = true;
  EXPECT_TRUE(applies(flow));
  flow.is_of_host = false;
  EXPECT_FALSE(applies(flow));
  view.rules.front().input = RoutingRule::Input::network;
  view.tables.back().routes.clear();
  hops.update(view);
  EXPECT_TRUE(applies(flow)) << "forwarded, maybe from that interface; no other rule has a route";
  flow.is_of_host = true;
  EXPECT_EQ(hop(flow), "10.44.0.3") << "no rule applies: the tables remain";
}

TEST_F(RuleConditions, OtherOutputInterfaceNeverApplies) {
  with_rule({.never = true});
  EXPECT_FALSE(applies(flow));
}

TEST_F(RuleConditions, NotInvertsAllOfThem) {
  with_rule({.source = IpPrefix{ip("10.44.0.1"), 32}, .protocol = 17, .is_inverted = true});
  flow.protocol = 17;
  EXPECT_FALSE(applies(flow)) << "both hold";
  flow.protocol = 6;
  EXPECT_TRUE(applies(flow));
  flow.protocol = 17;
  flow.source = ip("10.44.0.9");
  EXPECT_TRUE(applies(flow));
}

TEST_F(RuleConditions, GotoSkipsRules) {
  with_rule({.priority = 20});
  EXPECT_TRUE(applies(flow));
  view.rules.insert(view.rules.begin(), {.family = IpFamily::v4, .priority = 10, .jump = 100});
  view.rules.back().priority = 32766;
  for (RoutingRule& rule : view.rules) {
    if (rule.table == kMain) rule.priority = 32766;
  }
  hops.update(view);
  EXPECT_FALSE(applies(flow));
  view.rules.front().source = IpPrefix{ip("10.44.0.9"), 32};
  hops.update(view);
  EXPECT_TRUE(applies(flow)) << "the jump does not apply";
}

/// A rule that may apply is better than a table without a rule, but not than a rule that applies.
class UncertainRules : public NextHopsTest {
 protected:
  UncertainRules() {
    view.rules.clear();
    add(route("0.0.0.0", 0, {"10.44.0.10"}), 10);
    add(route("0.0.0.0", 0, {"10.44.0.77"}), 77);
    add(route("0.0.0.0", 0, {"10.44.0.78"}), 78);
  }
  Flow flow{.source = ip("10.44.0.1"), .destination = ip("8.8.8.8")};
};

TEST_F(UncertainRules, APacketWithoutPortsMayHaveThem) {
  view.rules.push_back({.table = 77, .destination_ports = PortRange{53, 53}});
  hops.update(view);
  EXPECT_TRUE(hops.needs_headers());
  EXPECT_EQ(hop(flow), "10.44.0.77") << "a fragment";
  flow.has_ports = true;
  flow.destination_port = 54;
  EXPECT_EQ(hop(flow), "10.44.0.10");
}

TEST_F(UncertainRules, AForwardedPacketMayComeFromAnyInterface) {
  view.rules.push_back({.table = 77, .input = RoutingRule::Input::network});
  view.rules.push_back({.table = 78});
  flow.is_of_host = false;
  hops.update(view);
  EXPECT_EQ(hop(flow), "10.44.0.78");
  view.rules.pop_back();
  hops.update(view);
  EXPECT_EQ(hop(flow), "10.44.0.77");
}

TEST_F(UncertainRules, AJumpThatMayHappenSkipsNothing) {
  view.rules.push_back({.table = 0, .is_certain = false, .priority = 1, .jump = 100});
  view.rules.push_back({.table = 77, .is_certain = false, .priority = 50});
  hops.update(view);
  EXPECT_EQ(hop(flow), "10.44.0.77");
}

TEST_F(NextHopsTest, RulesAreForOneFamily) {
  view.rules = {{.family = IpFamily::v4, .table = 77}, {.family = IpFamily::v6, .table = 78}};
  for (const std::uint32_t table : {77U, 78U}) {
    add(route("0.0.0.0", 0, {"10.44.0." + std::to_string(table)}), table);
    add(route("::", 0, {"fe80::" + std::to_string(table)}), table);
  }
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.77");
  EXPECT_EQ(hop("2001:db8::1", "fd00::1"), "fe80::78");
}

TEST_F(NextHopsTest, EachOfManyNextHopsGetsItsShare) {
  add(route("0.0.0.0", 0, {"10.44.0.2", "10.44.0.3", "10.44.0.4"}));
  hops.update(view);
  std::map<std::string, int> shares;
  constexpr std::uint32_t kFlows = 300;
  for (std::uint32_t i = 0; i < kFlows; ++i) {
    ++shares[to_string(
        hops.find({.source = ip("10.44.0.1"), .destination = Ipv4Address(0x08080000 + i)}))];
  }
  for (const char* const gateway : {"10.44.0.2", "10.44.0.3", "10.44.0.4"}) {
    EXPECT_GT(shares[gateway], 50) << gateway;
  }
}

TEST_F(NextHopsTest, RouteMayBeForATos) {
  HostRoute special = route("0.0.0.0", 0, {"10.44.0.3"}, 100);
  special.tos = 0x10;
  add(route("0.0.0.0", 0, {"10.44.0.2"}));
  add(special);
  hops.update(view);
  EXPECT_TRUE(hops.needs_headers());
  Flow flow{.source = ip("10.44.0.1"), .destination = ip("8.8.8.8")};
  EXPECT_EQ(hop(flow), "10.44.0.2");
  flow.tos = 0x10;
  EXPECT_EQ(hop(flow), "10.44.0.3") << "before the metric";
}

TEST_F(NextHopsTest, OtherRouteOfAPrefixWithoutThisTosFallsBackToAShorterPrefix) {
  HostRoute special = route("8.0.0.0", 8, {"10.44.0.3"});
  special.tos = 0x10;
  add(special);
  add(route("0.0.0.0", 0, {"10.44.0.2"}));
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.2");
}

// --- Reachability of gateways --------------------------------------------------------------------

class Routers : public NextHopsTest {
 protected:
  [[nodiscard]] std::string hop6() { return hop("2001:db8::1", "fd00::1"); }
};

TEST_F(Routers, ADeadOneIsReplacedByAnother) {
  add(route("::", 0, {"fe80::1"}, 1024));
  add(route("::", 0, {"fe80::2"}, 1024));
  hops.update(view);
  EXPECT_EQ(hop6(), "fe80::1") << "the first of equal ones";
  set_level("fe80::1", Level::resolved);
  EXPECT_EQ(hop6(), "fe80::1");
  set_level("fe80::1", Level::failed);
  EXPECT_EQ(hop6(), "fe80::2") << "although the answer was cached";
  set_level("fe80::2", Level::resolved);
  set_level("fe80::1", Level::unknown);
  EXPECT_EQ(hop6(), "fe80::2") << "one that responds is preferred to an unknown one";
  set_level("fe80::1", Level::resolved);
  EXPECT_EQ(hop6(), "fe80::1");
}

TEST_F(Routers, AllDeadStillGivesOne) {
  add(route("::", 0, {"fe80::1"}, 1024));
  add(route("::", 0, {"fe80::2"}, 1024));
  set_level("fe80::1", Level::failed);
  set_level("fe80::2", Level::failed);
  hops.update(view);
  EXPECT_EQ(hop6(), "fe80::1");
}

TEST_F(Routers, PreferenceCountsAmongThoseThatRespondAlike) {
  HostRoute low = route("::", 0, {"fe80::1"}, 1024);
  low.preference = HostRoute::Preference::low;
  HostRoute high = route("::", 0, {"fe80::3"}, 1024);
  high.preference = HostRoute::Preference::high;
  add(low);
  add(route("::", 0, {"fe80::2"}, 1024));
  add(high);
  hops.update(view);
  EXPECT_EQ(hop6(), "fe80::3");
  set_level("fe80::3", Level::failed);
  EXPECT_EQ(hop6(), "fe80::2");
  set_level("fe80::1", Level::resolved);
  EXPECT_EQ(hop6(), "fe80::1") << "reachability comes first (RFC 4191, 3.2)";
}

TEST_F(Routers, AHigherMetricIsNoAlternative) {
  add(route("0.0.0.0", 0, {"10.44.0.2"}, 100));
  add(route("0.0.0.0", 0, {"10.44.0.3"}, 200));
  set_level("10.44.0.2", Level::failed);
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.2");
}

TEST_F(Routers, OnlyThoseThatOthersReplaceAreWatched) {
  using Set = std::set<IpAddress>;
  add(route("10.1.0.0", 16, {"10.44.0.2"}, 100));
  add(route("10.1.0.0", 16, {"10.44.0.3"}, 200));
  HostRoute special = route("10.1.0.0", 16, {"10.44.0.4"}, 100);
  special.tos = 0x10;
  add(special);
  hops.update(view);
  EXPECT_EQ(gateways.watched, Set{}) << "another metric or TOS";
  add(route("10.1.0.0", 16, {"10.44.0.5"}, 200));
  hops.update(view);
  EXPECT_EQ(gateways.watched, (Set{ip("10.44.0.3"), ip("10.44.0.5")}));
  add(route("10.2.0.0", 16, {"10.44.0.6", "10.44.0.7"}));
  view.redirects = {{.destination = ip("8.8.8.8"), .gateway = ip("10.44.0.8")}};
  hops.update(view);
  EXPECT_EQ(gateways.watched, (Set{ip("10.44.0.3"), ip("10.44.0.5"), ip("10.44.0.6"),
                                   ip("10.44.0.7"), ip("10.44.0.8")}));
  view = {};
  hops.update(view);
  EXPECT_EQ(gateways.watched, Set{});
}

TEST_F(Routers, DeadHopsOfAMultipathRouteAreSkipped) {
  add(route("0.0.0.0", 0, {"10.44.0.2", "10.44.0.3"}));
  set_level("10.44.0.2", Level::resolved);
  hops.update(view);
  const auto used = [this] {
    std::map<std::string, int> counts;
    for (std::uint32_t i = 0; i < 100; ++i) ++counts[hop(Ipv4Address(0x08000000 + i).to_string())];
    return counts;
  };
  EXPECT_EQ(used().size(), 2U) << "an unknown one has its share";
  set_level("10.44.0.2", Level::failed);
  EXPECT_EQ(used().size(), 1U);
  EXPECT_EQ(used().begin()->first, "10.44.0.3");
}

TEST_F(Routers, ARedirectIsFollowedWhileItsGatewayResponds) {
  add(route("0.0.0.0", 0, {"10.44.0.2"}));
  view.redirects = {{.destination = ip("8.8.8.8"), .gateway = ip("10.44.0.3")}};
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.3");
  EXPECT_EQ(hop("8.8.8.9"), "10.44.0.2");
  set_level("10.44.0.3", Level::failed);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.2");
  set_level("10.44.0.3", Level::resolved);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.3");
  view.redirects.clear();
  hops.update(view);
  EXPECT_EQ(hop("8.8.8.8"), "10.44.0.2");
}

TEST_F(Routers, ARedirectMayBeTheOnlyGateway) {
  view.redirects = {{.destination = ip("10.44.0.9"), .gateway = ip("10.44.0.3")}};
  hops.update(view);
  EXPECT_TRUE(hops.has_gateways());
  EXPECT_EQ(hop("10.44.0.9"), "10.44.0.3");
}

}  // namespace
}  // namespace ipoib::link
