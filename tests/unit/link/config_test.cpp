// The default settings and limits of a link.
#include "link/config.hpp"

#include <gmock/gmock.h>

#include <array>

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

/// The documents have many of them.
TEST(Config, HasTheTimesAndLimitsOfTheDocuments) {
  const Config config;
  const Ageing& ageing = config.ageing;
  EXPECT_THAT(
      (std::array{ageing.reachable, ageing.delay, ageing.retransmit, ageing.negative,
                  ageing.gateway_probe, ageing.idle, ageing.lock_time, ageing.announce_interval}),
      ElementsAre(30s, 5s, 1s, 5s, 30s, 20min, 1s, 2s));
  EXPECT_THAT((std::array{ageing.unicast_probes, ageing.broadcast_probes, ageing.announcements}),
              ElementsAre(3, 3, 2));
  EXPECT_THAT(
      (std::array{config.path.refresh, config.path.mismatch_interval, config.membership_check,
                  config.silence_check, config.silence_check_per_lid, config.send_only_idle,
                  config.missing_group, config.route_wait, config.route_wait_unknown}),
      ElementsAre(15min, 5s, 2min, 5s, 40ms, 4min, 5s, 5ms, 1s));
  EXPECT_THAT(config.scopes, ElementsAre(2, 5, 8, 14));
  EXPECT_TRUE(config.dhcp_rewrite && config.strict_arp);
  const GroupCreation& creation = config.creation;
  EXPECT_EQ(creation.qkey, QKey(0x0b1b));
  EXPECT_THAT((std::array{creation.mtu, creation.rate, creation.hop_limit, creation.traffic_class}),
              ElementsAre(4, 3, 0, 0));
  const Limits& limits = config.limits;
  EXPECT_THAT((std::array{limits.neighbours, limits.unresolved, limits.parked_bytes_per_neighbour,
                          limits.parked_first, limits.parked, limits.parked_bytes,
                          limits.parked_replies, limits.unrouted, limits.unrouted_bytes,
                          limits.pins, limits.paths, limits.path_requests, limits.pending}),
              ElementsAre(16384, 2048, 212'992, 16, 512, 3 << 20, 128, 64, 512 << 10, 65536, 16384,
                          16, 512));
  EXPECT_THAT((std::array{limits.host_groups, limits.station_groups, limits.send_groups,
                          limits.routed_groups, limits.group_requests, limits.announcements}),
              ElementsAre(480, 416, 1024, 1024, 16, 1024));
  EXPECT_EQ(limits.host_joins, 100U);
  EXPECT_THAT((std::array{limits.paths_per_source, limits.solicitations, limits.arp_reply_checks,
                          limits.station_requests, limits.icmp_errors}),
              ElementsAre(20, 1000, 500, 500, 1000));
}

}  // namespace
}  // namespace ipoib::link
