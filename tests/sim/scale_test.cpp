// Large subnets, small enough here for each run of the tests; tests/sim/scale_main.cpp runs the
// large ones.
#include "tests/sim/scale.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/sim/day.hpp"

namespace ipoib::sim {
namespace {

using namespace std::chrono_literals;
using link::Counter;

constexpr std::uint64_t kSeed = 20241123;
/// Of a link that comes up: its groups, and the traps it subscribes to.
constexpr std::uint64_t kJoins = 3;
constexpr std::uint64_t kSubscriptions = 4;

[[nodiscard]] ScaleOptions small(std::uint32_t links) {
  ScaleOptions options;
  options.links = links;
  options.seed = kSeed;
  return options;
}

/// A link joins a group again when the SA reports that it was created: each all-nodes group once.
constexpr std::uint64_t kReported = 2;

TEST(ScaleBoot, EachLinkNeedsSevenRequests) {
  constexpr std::uint32_t kLinks = 100;
  Scale subnet(small(kLinks));
  subnet.boot(1s);
  ASSERT_TRUE(subnet.run_until_up(kLinks, 1min));
  EXPECT_GE(subnet.load().requests, kLinks * (kJoins + kSubscriptions));
  EXPECT_LE(subnet.load().requests, kLinks * (kJoins + kSubscriptions + kReported));
  EXPECT_EQ(subnet.load().timeouts, 0U);
}

TEST(ScaleBoot, LinksOfAnOverrunSaComeUp) {
  constexpr std::uint32_t kLinks = 120;
  ScaleOptions options = small(kLinks);
  options.sa_service = 2ms;
  options.sa_queue = 20;
  Scale subnet(options);
  subnet.boot(0s);
  EXPECT_TRUE(subnet.run_until_up(kLinks, 5min));
  EXPECT_GT(subnet.world.sa_overruns, kLinks);
  EXPECT_LE(subnet.load().mads, 10 * kLinks * (kJoins + kSubscriptions)) << "with retries";
}

TEST(ScaleBoot, PartitionsOfOnePortAreLinksOfTheirOwn) {
  constexpr std::uint32_t kLinks = 100;
  constexpr std::uint32_t kPartitions = 5;
  constexpr std::uint64_t kPorts = kLinks / kPartitions;
  ScaleOptions options = small(kLinks);
  options.partitions = kPartitions;
  Scale subnet(options);
  subnet.boot(1s);
  ASSERT_TRUE(subnet.run_until_up(kLinks, 1min));
  subnet.choose_pairs(2);
  Duration took{};
  EXPECT_TRUE(subnet.exchange(10s, took).empty());
  // One process on each port gets the reports.
  const std::uint64_t others = subnet.load().requests - subnet.load().paths;
  EXPECT_GE(others, kLinks * kJoins + kPorts * kSubscriptions);
  EXPECT_LE(others, kLinks * kJoins + kPorts * (kSubscriptions + kReported));
}

/// Links, and peers of each.
class ScalePairs : public ::testing::TestWithParam<std::pair<std::uint32_t, std::uint32_t>> {};

TEST_P(ScalePairs, EachLinkRequestsEachPathInUseOnce) {
  const auto [links, peers] = GetParam();
  Scale subnet(small(links));
  subnet.boot(1s);
  ASSERT_TRUE(subnet.run_until_up(links, 1min));
  subnet.world.run_for(5s);
  subnet.choose_pairs(peers);
  const SaLoad before = subnet.load();
  Duration took{};
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(subnet.exchange(30s, took).empty());
  }
  EXPECT_EQ((subnet.load() - before).paths, 2 * subnet.connections()) << "one in each direction";
}

INSTANTIATE_TEST_SUITE_P(All, ScalePairs,
                         ::testing::Values(std::pair{25U, 1U}, std::pair{25U, 4U},
                                           std::pair{25U, 24U}, std::pair{50U, 4U},
                                           std::pair{100U, 1U}),
                         [](const auto& test) {
                           return std::to_string(test.param.first) + "LinksWith" +
                                  std::to_string(test.param.second) + "Peers";
                         });

/// Requests per second because the broadcast group is silent, while one link sends to it so rarely
/// that every other link checks its membership each time.
double silence_checks(std::uint32_t links, std::uint64_t& lost) {
  ScaleOptions options = small(links);
  options.link.membership_check = 24h;  // only these checks
  Scale subnet(options);
  subnet.boot(1s);
  if (!subnet.run_until_up(links, 1min)) return -1;
  const Duration silence = std::max<Duration>(5s, links * 40ms);
  subnet.world.run_for(2 * silence);
  const SaLoad before = subnet.load();
  const TimePoint begin = subnet.world.now();
  for (std::uint32_t i = 0; i < 4; ++i) {
    subnet.broadcast(i);
    subnet.world.run_for(silence * 13 / 10);
  }
  lost = 0;
  for (std::uint32_t link = 0; link < links; ++link) {
    lost += subnet.host(link)->count(Counter::memberships_lost);
  }
  const std::chrono::duration<double> time = subnet.world.now() - begin;
  return static_cast<double>((subnet.load() - before).requests) / time.count();
}

TEST(ScaleSilence, ChecksAreAtMost50RequestsInASecond) {
  for (const std::uint32_t links : {20U, 125U, 200U}) {
    std::uint64_t lost = 0;
    const double rate = silence_checks(links, lost);
    EXPECT_LE(rate, 50) << links << " links";
    // A lookup and a join of each link in each round: the checks have taken place.
    const double round = 1.3 * std::max(5.0, 0.04 * links);
    EXPECT_GE(rate, 2 * links / round / 2) << links << " links";
    EXPECT_EQ(lost, 0U);
  }
}

constexpr std::uint32_t kTreeLinks = 32;

/// A fat tree of three levels: four pods, each of two leaf switches, two spines and four HCAs. Each
/// HCA has two links.
[[nodiscard]] ScaleOptions small_tree() {
  ScaleOptions options = small(kTreeLinks);
  options.partitions = 2;
  options.switch_ports = 4;
  return options;
}

/// All links are up, and all pairs have exchanged a packet.
void start(Scale& subnet) {
  subnet.boot(1s);
  ASSERT_TRUE(subnet.run_until_up(kTreeLinks, 1min));
  subnet.world.run_for(5s);
  subnet.choose_pairs(4);
  Duration took{};
  ASSERT_TRUE(subnet.exchange(10s, took).empty());
}

std::uint32_t pod_of(std::uint32_t link) { return link / 8; }

TEST(ScaleTree, LinksGoOnWithoutACoreSwitchAndAskTheSaNothing) {
  Scale subnet(small_tree());
  start(subnet);
  const SaLoad before = subnet.load();
  for (const char* core : {"core-1", "core-2", "core-3"}) {
    subnet.set_switch(core, softib::subnet::SwitchState::absent);
    Duration took{};
    EXPECT_TRUE(subnet.exchange(10s, took).empty()) << core;
  }
  EXPECT_EQ((subnet.load() - before).paths, 0U);
}

TEST(ScaleTree, PacketsBetweenPodsNeedACoreSwitch) {
  Scale subnet(small_tree());
  start(subnet);
  for (const char* core : {"core-1", "core-2", "core-3", "core-4"}) {
    subnet.set_switch(core, softib::subnet::SwitchState::absent);
  }
  Duration took{};
  const auto failed = subnet.exchange(3s, took);
  for (const auto& pair : subnet.pairs()) {
    const bool has_failed = std::ranges::any_of(failed, [&](const Scale::Pair& each) {
      return each.from == pair.from && each.to == pair.to;
    });
    EXPECT_EQ(has_failed, pod_of(pair.from) != pod_of(pair.to)) << pair.from << ' ' << pair.to;
  }
}

TEST(ScaleTree, LinksOfALeafSwitchComeBackWithIt) {
  Scale subnet(small_tree());
  start(subnet);
  subnet.set_switch("leaf-3", softib::subnet::SwitchState::absent);
  subnet.world.run_for(5s);
  EXPECT_EQ(subnet.up(), kTreeLinks - 4) << "two HCAs with two links each";
  subnet.set_switch("leaf-3", softib::subnet::SwitchState::present);
  EXPECT_TRUE(subnet.run_until_up(kTreeLinks, 1min));
  Duration took{};
  EXPECT_TRUE(subnet.exchange(10s, took).empty());
}

TEST(ScaleTree, MoreHcasThanTheTreeHasAreRefused) {
  ScaleOptions options = small_tree();
  options.links = 34;
  EXPECT_THROW(Scale{options}, std::invalid_argument);
}

TEST(ScaleDay, LinksSurviveRandomFaults) {
  DayOptions options;
  options.subnet = small(10);
  options.time = 90min;
  options.between_checks = 15min;
  options.between_faults = 5s;
  SCOPED_TRACE("seed " + std::to_string(options.subnet.seed));
  Day day(options);
  day.run();
  for (const std::string& failure : day.failures()) ADD_FAILURE() << failure;
  EXPECT_EQ(day.checks(), 7U);
  for (std::size_t fault = 0; fault < kFaults; ++fault) {
    EXPECT_GT(day.count(static_cast<Fault>(fault)), 0U) << name(static_cast<Fault>(fault));
  }
}

}  // namespace
}  // namespace ipoib::sim
