#include "link/changes.hpp"

#include <gmock/gmock.h>

#include <cerrno>

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ChangesTest : public LinkFixture {
 protected:
  /// "created 10.44.0.2 incomplete", "joined 224.0.0.251 full": what has changed since the last
  /// call.
  std::vector<std::string> changes() {
    std::vector<std::string> out;
    for (const Change& each : link->take_changes(Changes::kMax, now).changes) {
      if (const auto* const neighbour = std::get_if<NeighbourChange>(&each)) {
        static constexpr std::array kKinds{"created ", "changed ", "removed "};
        out.push_back(kKinds.at(static_cast<std::size_t>(neighbour->kind)) +
                      to_string(neighbour->neighbour.address) + " " +
                      std::string(name(neighbour->neighbour.state)) + ": " + neighbour->why);
      } else {
        const auto& group = std::get<GroupChange>(each);
        static constexpr std::array kKinds{"joining ", "joined ", "failed ", "left "};
        out.push_back(
            kKinds.at(static_cast<std::size_t>(group.kind)) +
            (group.group.address ? to_string(*group.group.address) : group.group.mgid.to_string()) +
            " " + std::string(name(group.group.state)));
      }
    }
    return out;
  }
  void watch_neighbours() { link->changes().watch({.neighbours = true}); }
  void watch_groups() { link->changes().watch({.groups = true}); }
  /// The host joins 224.0.0.251.
  void join_group() {
    view.groups = {Ipv4Address(0xe00000fb)};
    link->on_host_changed(view, now);
  }
};

TEST_F(ChangesTest, NothingIsKeptWhileNobodyWatches) {
  bring_up();
  resolve_peer();
  EXPECT_TRUE(link->changes().empty());
  watch_neighbours();
  link->remove(kPeer);
  EXPECT_FALSE(link->changes().empty());
  link->changes().watch({});
  EXPECT_TRUE(link->changes().empty());
}

TEST_F(ChangesTest, EachStateOfANeighbourIsAChange) {
  bring_up();
  watch_neighbours();
  resolve_peer();
  EXPECT_THAT(changes(), ElementsAre("created 10.44.0.2 incomplete: request sent",
                                     "changed 10.44.0.2 resolving: address learnt",
                                     "changed 10.44.0.2 reachable: confirmed"));
  send(kPeer);
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  EXPECT_THAT(changes(), IsEmpty()) << "it is reachable as before";
  link->remove(kPeer);
  EXPECT_THAT(changes(), ElementsAre("removed 10.44.0.2 reachable: deleted by the operator"));
}

TEST_F(ChangesTest, TheEntryOfAChangeIsThatAfterwards) {
  bring_up();
  watch_neighbours();
  resolve_peer();
  now += 2s;
  const auto page = link->take_changes(Changes::kMax, now);
  ASSERT_THAT(page.changes, SizeIs(3));
  const auto& first = std::get<NeighbourChange>(page.changes.front()).neighbour;
  EXPECT_FALSE(first.hardware.has_value());
  EXPECT_EQ(first.parked, 1U);
  const auto& last = std::get<NeighbourChange>(page.changes.back()).neighbour;
  EXPECT_EQ(last.hardware, kPeerHw);
  EXPECT_EQ(last.used, 2s) << "the age when the change is taken";
  EXPECT_TRUE(last.path.has_value());
}

TEST_F(ChangesTest, AnotherAddressInTheSameStateIsAChange) {
  bring_up();
  resolve_peer();
  watch_neighbours();
  now += 2s;  // a learnt address is locked for a second
  auto claim = arp_from_peer(wire::ArpOperation::request);
  claim.sender_hardware.qpn = Qpn(0x23);
  receive_arp(claim, broadcast());
  const auto page = link->take_changes(Changes::kMax, now);
  ASSERT_FALSE(page.changes.empty());
  EXPECT_EQ(std::get<NeighbourChange>(page.changes.back()).neighbour.hardware,
            claim.sender_hardware);
  now += 2s;
  claim.sender_hardware.qpn = Qpn(0x24);
  receive_arp(claim, broadcast());
  EXPECT_THAT(changes(), ElementsAre("changed 10.44.0.2 stale: another address"));
}

TEST_F(ChangesTest, AChangeOfAPinnedNeighbourHasThePin) {
  bring_up();
  ASSERT_TRUE(link->pin(kPeer, kPeerHw.gid));
  watch_neighbours();
  send(kPeer);
  const auto page = link->take_changes(Changes::kMax, now);
  ASSERT_FALSE(page.changes.empty());
  for (const auto& change : page.changes) {
    EXPECT_EQ(std::get<NeighbourChange>(change).neighbour.pinned, kPeerHw.gid);
  }
}

TEST_F(ChangesTest, PinsAreChanges) {
  bring_up();
  watch_neighbours();
  ASSERT_TRUE(link->pin(kPeer, kPeerHw.gid));
  const auto page = link->take_changes(1, now);
  ASSERT_THAT(page.changes, SizeIs(1));
  const auto& change = std::get<NeighbourChange>(page.changes.front());
  EXPECT_EQ(change.kind, NeighbourChange::Kind::created);
  EXPECT_EQ(change.neighbour.pinned, kPeerHw.gid);
  ASSERT_TRUE(link->pin(kPeer, port_gid(7)));
  link->remove(kPeer);
  EXPECT_THAT(changes(), ElementsAre("changed 10.44.0.2 pinned: pinned by the operator",
                                     "removed 10.44.0.2 pinned: deleted by the operator"));
}

TEST_F(ChangesTest, PermanentEntriesAndTheirReplacementsAreChanges) {
  bring_up();
  watch_neighbours();
  ASSERT_TRUE(link->set_permanent(kPeer, kPeerHw, now));
  ASSERT_TRUE(link->set_permanent(kPeer, hardware(0x99, 2), now));
  EXPECT_THAT(changes(), ElementsAre("created 10.44.0.2 permanent: set by the operator",
                                     "changed 10.44.0.2 permanent: set by the operator"));
}

TEST_F(ChangesTest, EvictionIsAReason) {
  config.limits.neighbours = 1;
  bring_up();
  resolve_peer();
  watch_neighbours();
  send(Ipv4Address(0x0a2c0003));
  EXPECT_THAT(changes(), ElementsAre("removed 10.44.0.2 reachable: evicted",
                                     "created 10.44.0.3 incomplete: request sent"));
}

TEST_F(ChangesTest, ALinkThatGoesDownTellsOfItsNeighbours) {
  bring_up();
  resolve_peer();
  send(Ipv4Address(0x0a2c0003));
  watch_neighbours();
  port.active = false;
  link->on_port(port, now);
  EXPECT_THAT(changes(),
              ::testing::UnorderedElementsAre("changed 10.44.0.2 stale: link down",
                                              "removed 10.44.0.3 incomplete: link down"));
}

TEST_F(ChangesTest, GroupsAreJoinedAndLeft) {
  bring_up();
  watch_groups();
  join_group();
  watch_groups();
  EXPECT_THAT(changes(), ElementsAre("joining 224.0.0.251 joining"));
  grant_joins();
  EXPECT_THAT(changes(), ElementsAre("joined 224.0.0.251 full"));
  link->on_client_reregister(now);
  grant_joins();
  EXPECT_THAT(changes(), IsEmpty()) << "it has been a member all the time";
  view.groups = {};
  link->on_host_changed(view, now);
  EXPECT_THAT(changes(), ElementsAre(HasSubstr("left 224.0.0.251")));
}

TEST_F(ChangesTest, AFailedJoinIsAChangeWithItsReason) {
  bring_up();
  watch_groups();
  join_group();
  for (const JoinRequest& join : take<JoinRequest>()) {
    link->on_response({join.id, wire::SaFailure(wire::SaFailure::Kind::timeout)}, now);
  }
  const auto page = link->take_changes(Changes::kMax, now);
  ASSERT_THAT(page.changes, SizeIs(2));
  const auto& failed = std::get<GroupChange>(page.changes.back());
  EXPECT_EQ(failed.kind, GroupChange::Kind::failed);
  EXPECT_EQ(failed.why, wire::SaFailure(wire::SaFailure::Kind::timeout).text());
}

TEST_F(ChangesTest, GroupsThatTheHostOnlySendsToAreChangesToo) {
  bring_up();
  watch_groups();
  send(Ipv4Address(0xe00000fb));
  grant_joins();
  EXPECT_THAT(changes(),
              ElementsAre("joining 224.0.0.251 joining", "joined 224.0.0.251 send-only"));
  port.active = false;
  link->on_port(port, now);
  EXPECT_THAT(changes(), ::testing::Contains("left 224.0.0.251 absent"));
}

TEST(Changes, KeepsTheOldestAndCountsTheOthers) {
  Changes changes;
  changes.watch({.neighbours = true});
  const auto add = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      NeighbourInfo info;
      info.uses = i;
      changes.add(NeighbourChange::Kind::changed, std::move(info), "");
    }
  };
  add(Changes::kMax + 7);
  auto page = changes.take(Changes::kMax - 1, {});
  EXPECT_THAT(page.changes, SizeIs(Changes::kMax - 1));
  EXPECT_EQ(std::get<NeighbourChange>(page.changes.front()).neighbour.uses, 0U);
  EXPECT_EQ(page.lost, 0U) << "one of those before is left";
  add(1);
  page = changes.take(Changes::kMax, {});
  EXPECT_THAT(page.changes, SizeIs(1)) << "what comes after a loss is lost until it was reported";
  EXPECT_EQ(page.lost, 8U);
  EXPECT_TRUE(changes.empty());
  add(1);
  page = changes.take(Changes::kMax, {});
  EXPECT_THAT(page.changes, SizeIs(1));
  EXPECT_EQ(page.lost, 0U);
}

}  // namespace
}  // namespace ipoib::link
