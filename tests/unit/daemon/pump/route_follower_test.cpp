// The routes of an interface's links are as new as the packets of the host.
#include "daemon/pump/route_follower.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/address_handles.hpp"
#include "tests/unit/daemon/pump/fake_ports.hpp"
#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;

using link::Counter;

/// A link without a route to kFar, whose packets wait for one; and a peer that may be its gateway.
class RouteFollowerTest : public link::LinkFixture {
 protected:
  static constexpr std::uint32_t kMain = 254;
  static constexpr Ipv4Address kFar{0x0a630001};

  RouteFollowerTest() {
    view.tables = {{kMain, {{.destination = {kOwnIp, 24}, .metric = 0, .hops = {RouteHop{}}}}}};
  }
  void SetUp() override {
    bring_up();
    resolve_peer();
    follower.add(*link);
    forget();
  }
  [[nodiscard]] static RouteChange far_by_peer() {
    return RouteAdded{kMain,
                      {.destination = {kFar, 32}, .metric = 0, .hops = {RouteHop{kPeer, 1}}}};
  }
  [[nodiscard]] static RouteChange far_removed() {
    return RouteRemoved{kMain,
                        {.destination = {kFar, 32}, .metric = 0, .hops = {RouteHop{kPeer, 1}}}};
  }
  /// Whether a packet to kFar goes to the peer.
  [[nodiscard]] bool reaches_far() {
    forget();
    send(kFar);
    const bool sent = std::ranges::count(link->sends(), kPeerHw.qpn, &Outgoing::qpn) > 0;
    tick_to(now + config.route_wait);
    return sent;
  }
  void announce(RouteChange change) {
    routes->announced.push_back(std::move(change));
    follower.refresh(now);
  }
  /// The view that the control thread began to read at some time.
  void take_view(TimePoint began) {
    link->on_host_changed(view, now);
    follower.on_view(began, now);
  }

  FakeRoutes* routes = new FakeRoutes;
  RouteFollower follower{std::unique_ptr<linux::RouteSource>(routes)};
};

TEST_F(RouteFollowerTest, PassesOnWhatIsAnnounced) {
  EXPECT_FALSE(reaches_far());
  announce(far_by_peer());
  EXPECT_TRUE(reaches_far());
  announce(far_removed());
  EXPECT_FALSE(reaches_far());
}

TEST_F(RouteFollowerTest, AThreadThatDoesNotSleepReadsOnceAnInterval) {
  for (int i = 0; i < 10; ++i) follower.turn(now);
  EXPECT_EQ(routes->reads, 1U);
  follower.turn(now + RouteFollower::kInterval);
  EXPECT_EQ(routes->reads, 2U);
}

TEST_F(RouteFollowerTest, RepeatsWhatWasAnnouncedSinceAViewWasBegun) {
  const TimePoint began = now;
  now += 1ms;
  announce(far_by_peer());
  follower.turn(now += 1ms);
  take_view(began);
  EXPECT_TRUE(reaches_far()) << "the view is older";
}

TEST_F(RouteFollowerTest, RepeatsWhatWasReadInTheSameTurn) {
  announce(far_by_peer());
  take_view(now + 1ms);
  EXPECT_TRUE(reaches_far()) << "it may have been announced after the beginning of the view";
}

TEST_F(RouteFollowerTest, DoesNotRepeatWhatAViewKnows) {
  announce(far_by_peer());
  follower.turn(now += 1ms);
  now += 1ms;
  take_view(now);
  EXPECT_FALSE(reaches_far()) << "the kernel has removed the route in silence";
}

TEST_F(RouteFollowerTest, AsksForAViewIfSomethingIsUnknown) {
  announce(far_by_peer());
  EXPECT_FALSE(follower.wants_view());
  announce(RoutesUnknown{});
  EXPECT_TRUE(follower.wants_view());
}

TEST_F(RouteFollowerTest, AViewThatIsOlderThanALossDoesNotEndIt) {
  const TimePoint began = now;
  announce(RoutesUnknown{});
  follower.turn(now += 1ms);
  take_view(began);
  forget();
  send(kFar);
  tick_to(now + config.route_wait);
  EXPECT_EQ(count(Counter::drop_no_route), 0U) << "it waits for the next view";
  take_view(now);
  EXPECT_EQ(count(Counter::drop_no_route), 1U);
}

TEST_F(RouteFollowerTest, AViewThatTookTooLongIsIncomplete) {
  const TimePoint began = now;
  announce(far_by_peer());
  follower.turn(now += 1ms);
  follower.turn(now += RouteFollower::kKept + 1s);
  take_view(began);
  EXPECT_TRUE(follower.wants_view());
}

TEST_F(RouteFollowerTest, KeepsALimitedNumberOfChanges) {
  const TimePoint began = now;
  routes->announced.assign(RouteFollower::kMaxKept + 1, far_by_peer());
  follower.refresh(now);
  follower.turn(now += 1ms);
  take_view(began);
  EXPECT_TRUE(follower.wants_view()) << "not all can be repeated";
}

TEST_F(RouteFollowerTest, WithoutASourceDoesNothing) {
  RouteFollower none(nullptr);
  none.add(*link);
  none.turn(now);
  none.refresh(now);
  none.on_view(now, now);
  none.rename("iby");
  EXPECT_EQ(none.descriptor(), -1);
  EXPECT_FALSE(none.wants_view());
}

}  // namespace
}  // namespace ipoib::daemon
