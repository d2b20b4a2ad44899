// RouteFeed with the kernel's announcements, and the copy of the routes that follows them.
#include "linux/route_feed.hpp"

#include <gmock/gmock.h>
#include <netlink/netlink.h>

#include <random>
#include <string>

#include "link/host_routes.hpp"
#include "linux/netlink_sockets.hpp"
#include "linux/route_reader.hpp"
#include "linux/tun_device.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"

namespace ipoib::linux {
namespace {

class RouteFeedTest : public test::NamespaceTest {
 protected:
  void SetUp() override {
    NamespaceTest::SetUp();
    if (IsSkipped()) return;
    tun_ = TunDevice::open({.name = "ib0"}).value();
    sockets_.emplace(NetlinkSockets::open().value());
    ip("link add other0 type veth peer name other1");
    ip("link set other0 up");
    ip("link set other1 up");
    ip("addr add 10.8.0.1/24 dev other0");
    ip("-6 addr add fd08::1/64 dev other0 nodad");
    ip("link set ib0 up");
    ip("addr add 10.9.0.1/24 dev ib0");
    ip("-6 addr add fd09::1/64 dev ib0 nodad");
    ASSERT_TRUE(tun_->set_carrier(true));
    feed_ = RouteFeed::open({tun_->interface_index(), "ib0"}).value();
    followed_ = read();
  }
  /// All routes, as the control thread reads them.
  [[nodiscard]] link::HostRoutes read() {
    HostView view;
    EXPECT_TRUE(read_routing(sockets_->queries.get(), {tun_->interface_index(), "ib0"}, view));
    return {view, HashKey(1, 2)};
  }
  std::vector<RouteChange> changes() {
    std::vector<RouteChange> found;
    feed_->read(found);
    return found;
  }
  [[nodiscard]] static bool is_unknown(const std::vector<RouteChange>& changes) {
    return std::ranges::any_of(changes, [](const RouteChange& change) {
      return std::holds_alternative<RoutesUnknown>(change);
    });
  }
  static void change_many(int routes) {
    ip("-batch - <<END\n$(for i in $(seq 0 " + std::to_string(routes - 1) +
       "); do echo \"route replace $((11 + i / 65536)).$((i / 256 % 256)).$((i % 256)).0/24"
       " via 10.9.0.2\"; done)\nEND");
  }
  void follow() {
    for (const RouteChange& change : changes()) followed_->apply(change);
  }
  /// The gateways of the best routes to an address, by the routes that follow the changes.
  [[nodiscard]] static std::string gateways(const link::HostRoutes& routes,
                                            const std::string& address) {
    const auto to = parse_ip_address(address).value();
    const IpAddress from =
        family(to) == IpFamily::v4 ? *parse_ip_address("10.9.0.1") : *parse_ip_address("fd09::1");
    std::multiset<std::string> found;
    for (const HostRoute* const route : routes.find({.source = from, .destination = to})) {
      for (const RouteHop& hop : route->hops) {
        found.insert(hop.gateway ? to_string(*hop.gateway) : "on the link");
      }
    }
    std::string out;
    for (const auto& each : found) out += each + " ";
    return out;
  }
  [[nodiscard]] std::string by(const std::string& address) {
    follow();
    EXPECT_EQ(gateways(*followed_, address), gateways(read(), address)) << address;
    return gateways(*followed_, address);
  }

  std::unique_ptr<TunDevice> tun_;
  std::optional<NetlinkSockets> sockets_;
  std::unique_ptr<RouteFeed> feed_;
  std::optional<link::HostRoutes> followed_;
};

TEST_F(RouteFeedTest, FollowsRoutes) {
  ip("route add 10.50.0.0/16 via 10.9.0.2");
  EXPECT_EQ(by("10.50.0.1"), "10.9.0.2 ");
  ip("route replace 10.50.0.0/16 via 10.9.0.3");
  EXPECT_EQ(by("10.50.0.1"), "10.9.0.3 ");
  ip("route replace 10.50.0.0/16 via 10.8.0.3");
  EXPECT_EQ(by("10.50.0.1"), "") << "by another interface";
  ip("route replace 10.50.0.0/16 nexthop via 10.9.0.2 nexthop via 10.9.0.3 nexthop via 10.8.0.2");
  EXPECT_EQ(by("10.50.0.1"), "10.9.0.2 10.9.0.3 ");
  ip("route del 10.50.0.0/16");
  EXPECT_EQ(by("10.50.0.1"), "");
  ip("route add 10.50.0.0/16 via 10.9.0.2");
  ip("route replace unreachable 10.50.0.0/16");
  EXPECT_EQ(by("10.50.0.1"), "");
}

TEST_F(RouteFeedTest, FollowsIpv6Routes) {
  ip("-6 route add fd50::/16 via fd09::2");
  EXPECT_EQ(by("fd50::1"), "fd09::2 ");
  ip("-6 route append fd50::/16 via fd09::3");
  EXPECT_EQ(by("fd50::1"), "fd09::2 fd09::3 ");
  ip("-6 route append fd50::/16 via fd08::3");
  EXPECT_EQ(by("fd50::1"), "fd09::2 fd09::3 ");
  ip("-6 route del fd50::/16 via fd09::2");
  EXPECT_EQ(by("fd50::1"), "fd09::3 ");
  ip("-6 route replace fd50::/16 via fd09::4");
  EXPECT_EQ(by("fd50::1"), "fd09::4 ");
  ip("-6 route replace fd50::/16 via fd08::4");
  EXPECT_EQ(by("fd50::1"), "");
}

TEST_F(RouteFeedTest, FollowsNexthopObjectsAndTheirGroups) {
  for (const char* const mode : {"1", "0"}) {
    std::ofstream("/proc/sys/net/ipv4/nexthop_compat_mode") << mode << std::flush;
    ip("nexthop replace id 7 via 10.9.0.7 dev ib0");
    ip("nexthop replace id 8 via 10.9.0.8 dev ib0");
    ip("nexthop replace id 9 group 7/8");
    ip("route add 10.50.0.0/16 nhid 7");
    ip("route add 10.51.0.0/16 nhid 9");
    EXPECT_EQ(by("10.50.0.1"), "10.9.0.7 ");
    EXPECT_EQ(by("10.51.0.1"), "10.9.0.7 10.9.0.8 ");
    ip("nexthop replace id 7 via 10.9.0.9 dev ib0");
    EXPECT_EQ(by("10.50.0.1"), "10.9.0.9 ");
    EXPECT_EQ(by("10.51.0.1"), "10.9.0.8 10.9.0.9 ");
    ip("nexthop del id 7");
    EXPECT_EQ(by("10.50.0.1"), "");
    EXPECT_EQ(by("10.51.0.1"), "10.9.0.8 ");
    ip("nexthop flush");
    EXPECT_EQ(by("10.51.0.1"), "");
  }
}

TEST_F(RouteFeedTest, FollowsRules) {
  ip("route add 10.50.0.0/16 via 10.9.0.2");
  ip("route add 10.50.0.0/16 via 10.9.0.3 table 100");
  ip("rule add to 10.50.1.0/24 table 100");
  EXPECT_EQ(by("10.50.0.1"), "10.9.0.2 ");
  EXPECT_EQ(by("10.50.1.1"), "10.9.0.3 ");
  ip("rule del to 10.50.1.0/24 table 100");
  EXPECT_EQ(by("10.50.1.1"), "10.9.0.2 ");
}

TEST_F(RouteFeedTest, FollowsAddressesThatGo) {
  ip("addr add 10.7.0.1/24 dev ib0");
  ip("route add 10.50.0.0/16 via 10.9.0.2 src 10.7.0.1");
  EXPECT_EQ(by("10.50.0.1"), "10.9.0.2 ");
  EXPECT_EQ(by("10.7.0.2"), "on the link ");
  ip("addr del 10.7.0.1/24 dev ib0");
  EXPECT_EQ(by("10.50.0.1"), "") << "the kernel removes it in silence";
  EXPECT_EQ(by("10.7.0.2"), "");
}

TEST_F(RouteFeedTest, FollowsTheInterface) {
  ip("route add 10.50.0.0/16 via 10.9.0.2");
  ip("link set ib0 down");
  EXPECT_EQ(by("10.50.0.1"), "");
  ip("link set ib0 up");
  EXPECT_TRUE(is_unknown(changes())) << "next hops may have come back in silence";
}

TEST_F(RouteFeedTest, SaysThatAnnouncementsWereLost) {
  constexpr int kSmall = 32 << 10;
  ASSERT_EQ(::setsockopt(feed_->descriptor(), SOL_SOCKET, SO_RCVBUF, &kSmall, sizeof kSmall), 0);
  change_many(1000);
  EXPECT_TRUE(is_unknown(changes()));
}

/// All of a burst, so that the packet after it takes the route of the last one, but no more.
TEST_F(RouteFeedTest, ReadsALimitedNumberAtATime) {
  int buffer = 0;
  socklen_t size = sizeof buffer;
  ASSERT_EQ(::getsockopt(feed_->descriptor(), SOL_SOCKET, SO_RCVBUF, &buffer, &size), 0);
  constexpr std::size_t kMore = 1000;
  constexpr std::size_t kPerMessage = 1280;  // bytes, of the kernel's sk_buff
  if (static_cast<std::size_t>(buffer) < (RouteFeed::kMaxReads + kMore) * kPerMessage)
    GTEST_SKIP() << "large socket buffers need CAP_NET_ADMIN outside namespaces";
  change_many(RouteFeed::kMaxReads + kMore);
  const std::size_t first = changes().size();
  EXPECT_GE(first, 10'000U);
  EXPECT_LE(first, RouteFeed::kMaxReads);
  EXPECT_GE(changes().size(), kMore);
}

/// What is announced leads to the same routes as reading all of them. Left out is what the copy
/// cannot know, since it has only what leads through the interface, and which reading all a second
/// later mends: IPv4 routes with the same prefix, TOS and metric through several interfaces
/// (`append`), and IPv6 routes with and without a gateway that have the same metric.
TEST_F(RouteFeedTest, RandomChangesLeadToTheRoutesOfTheKernel) {
  std::mt19937 random(42);
  const auto pick = [&random](const auto& list) { return list[random() % std::size(list)]; };
  const std::array verbs6{"add", "del", "replace", "append"};
  const std::array verbs4{"add", "del", "replace"};
  const std::array gateways4{"10.9.0.2", "10.9.0.3", "10.9.0.4", "10.8.0.2", "10.8.0.3"};
  const std::array gateways6{"fd09::2", "fd09::3", "fd09::4", "fd08::2", "fd08::3"};
  const std::array metrics{"", "metric 10", "metric 20"};
  constexpr int kSteps = 400;
  for (int step = 0; step < kSteps; ++step) {
    const bool is_ipv6 = random() % 2 == 0;
    const std::string to = std::to_string(random() % 2);
    std::string how;
    switch (random() % 4) {
      case 0:
        // Two IPv4 routes that differ in other interfaces only look alike.
        how = std::string("nexthop via ") + (is_ipv6 ? pick(gateways6) : "10.9.0.5") +
              " nexthop via " +
              (is_ipv6 ? pick(gateways6) : pick(std::array{"10.9.0.2", "10.9.0.3"}));
        break;
      case 1:
        how = is_ipv6 ? "via fd09::2" : random() % 2 == 0 ? "dev ib0" : "dev other0";
        break;
      default:
        how = std::string("via ") + (is_ipv6 ? pick(gateways6) : pick(gateways4));
    }
    const std::string command = std::string(is_ipv6 ? "ip -6" : "ip") + " route " +
                                (is_ipv6 ? pick(verbs6) : pick(verbs4)) + " " +
                                (is_ipv6 ? "fd5" + to + "::/16" : "10.5" + to + ".0.0/16") + " " +
                                how + " " + pick(metrics) + " 2>/dev/null";
    (void)std::system(command.c_str());  // many are refused
    const std::string address = is_ipv6 ? "fd5" + to + "::1" : "10.5" + to + ".0.1";
    (void)by(address);
    if (HasFailure()) FAIL() << "after step " << step << ": " << command;
  }
}

}  // namespace
}  // namespace ipoib::linux
