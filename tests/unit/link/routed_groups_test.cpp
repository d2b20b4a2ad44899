// Groups for multicast routers on the host (RFC 4391, 11).
#include <gmock/gmock.h>

#include "ipoib/well_known_groups.hpp"
#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using wire::McMemberRecord;

class RoutedGroupsTest : public LinkFixture {
 protected:
  using GroupsRequest = RequestOf<wire::GroupsQuery>;

  static Gid mgid(std::uint32_t group) {
    return wire::multicast_gid(Ipv4Address(group), kDefaultPKey);
  }
  static Gid mgid(const char* group) {
    return wire::multicast_gid(*Ipv6Address::parse(group), kDefaultPKey);
  }
  static inline const Gid kFirst = mgid(0xef010203);
  static inline const Gid kSecond = mgid(0xef010204);

  void route(bool ipv4 = true, bool ipv6 = false) {
    view.routes_ipv4_multicast = ipv4;
    view.routes_ipv6_multicast = ipv6;
    link->on_host_changed(view, now);
  }
  void list(const std::vector<Gid>& groups) {
    const auto requests = take<GroupsRequest>();
    ASSERT_EQ(requests.size(), 1U);
    EXPECT_EQ(requests[0].components, McMemberRecord::kPKey);
    EXPECT_EQ(requests[0].record.pkey, kDefaultPKey);
    wire::McMemberTable table;
    for (const Gid& group : groups) table.push_back(group_record(group));
    link->on_response({requests[0].id, table}, now);
  }
  void be_routing(const std::vector<Gid>& groups) {
    bring_up();
    route();
    list(groups);
    grant_joins();
    forget();
  }
  /// The groups that are joined as NonMember.
  [[nodiscard]] std::vector<Gid> joined() {
    std::vector<Gid> found;
    for (const JoinRequest& join : emitted<JoinRequest>()) {
      if (join.record.join_state == McMemberRecord::kNonMember) found.push_back(join.record.mgid);
    }
    return found;
  }
  [[nodiscard]] std::vector<Gid> left() {
    std::vector<Gid> found;
    for (const LeaveRequest& leave : emitted<LeaveRequest>()) {
      if (leave.record.join_state == McMemberRecord::kNonMember) found.push_back(leave.record.mgid);
    }
    return found;
  }
  /// Makes the link confirm its groups and request the list.
  void ask_again() {
    link->on_client_reregister(now);
    grant_joins();
  }
  void run_until_list() {
    while (emitted<GroupsRequest>().empty()) {
      now = link->next_deadline();
      link->tick(now);
    }
  }
  static Gid all_routers() { return wire::multicast_gid(kAllRouters, kDefaultPKey); }
  void notice(std::uint16_t trap, const Gid& group) {
    wire::Notice report;
    report.trap_number = trap;
    report.gid = group;
    link->on_notice(report, now);
  }
  [[nodiscard]] std::string membership(const Gid& group) {
    for (const GroupInfo& info : link->groups()) {
      if (info.mgid == group) return std::string(name(info.state));
    }
    return "none";
  }
};

class RoutedGroupsStates : public RoutedGroupsTest {};

TEST_F(RoutedGroupsStates, RoutedGroups_Off_Notice) {
  bring_up();
  link->on_host_changed(view, now);
  EXPECT_THAT(emitted<GroupsRequest>(), IsEmpty());
  notice(wire::trap::kGroupCreated, kFirst);
  EXPECT_THAT(joined(), IsEmpty());
}

TEST_F(RoutedGroupsStates, RoutedGroups_Off_Router) {
  make();
  route();
  EXPECT_THAT(emitted<GroupsRequest>(), IsEmpty()) << "the link is down";
  link->on_port(port, now);
  grant_joins();
  EXPECT_EQ(take<GroupsRequest>().size(), 1U);
}

TEST_F(RoutedGroupsStates, RoutedGroups_Listing_Response) {
  be_routing({kFirst});
  ask_again();
  list({kSecond});
  EXPECT_THAT(joined(), ElementsAre(kSecond));
  EXPECT_THAT(left(), ElementsAre(kFirst));
}

TEST_F(RoutedGroupsTest, RFC4391_11_RouterJoinsAllGroupsAsNonMember) {
  bring_up();
  route();
  EXPECT_EQ(membership(all_routers()), "joining");
  list({kFirst, broadcast(), kSecond});
  EXPECT_THAT(joined(), UnorderedElementsAre(kFirst, kSecond));
  grant_joins();
  EXPECT_EQ(emitted<AttachGroup>().size(), 3U);
  EXPECT_EQ(membership(kFirst), "routed");
  EXPECT_EQ(membership(all_routers()), "full") << "of packets whose group does not exist";
  // The host receives their datagrams.
  forget();
  receive(datagram(encapsulated(ip_packet(Ipv4Address(0xef010203), kPeer)), kFirst));
  EXPECT_EQ(link->to_host().size(), 1U);
}

TEST_F(RoutedGroupsTest, Ipv6RouterIsInTheAllRoutersGroupOfIpv6) {
  bring_up();
  route(false, true);
  EXPECT_EQ(membership(all_routers()), "none");
  EXPECT_EQ(membership(wire::multicast_gid(kAllRoutersOfIpv6, kDefaultPKey)), "joining");
}

TEST_F(RoutedGroupsStates, RoutedGroups_Listed_Notice) {
  be_routing({kFirst});
  notice(wire::trap::kGroupCreated, kSecond);
  EXPECT_THAT(joined(), ElementsAre(kSecond));
  grant_joins();
  forget();
  notice(wire::trap::kGroupDeleted, kSecond);
  EXPECT_EQ(membership(kSecond), "none");
  EXPECT_EQ(emitted<DetachGroup>().size(), 1U);
  EXPECT_EQ(membership(kFirst), "routed");
}

TEST_F(RoutedGroupsTest, GroupsOfOtherLinksFamiliesAndLocalOnesAreNotRouted) {
  bring_up();
  route(true, false);
  const Gid other_partition = wire::multicast_gid(Ipv4Address(0xef010203), PKey(0x8012));
  const Gid other_scope = wire::multicast_gid(Ipv4Address(0xef010203), kDefaultPKey, 5);
  const Gid not_ipoib = *Gid::parse("ff12:a01b::1");
  list({mgid(0xe00000fb), mgid("ff05::1:3"), other_partition, other_scope, not_ipoib,
        mgid(0xe0000101)});
  EXPECT_THAT(joined(), ElementsAre(mgid(0xe0000101)));
  notice(wire::trap::kGroupCreated, other_partition);
  notice(wire::trap::kGroupCreated, mgid("ff05::1:3"));
  EXPECT_EQ(joined().size(), 1U);
}

TEST_F(RoutedGroupsTest, SolicitedNodeGroupsAreNotRouted) {
  bring_up();
  route(false, true);
  list({mgid("ff02::1:ff12:3456"), mgid("ff05::1:3"), kFirst});
  EXPECT_THAT(joined(), ElementsAre(mgid("ff05::1:3")));
}

TEST_F(RoutedGroupsStates, RoutedGroups_Listed_NoRouter) {
  be_routing({kFirst, kSecond});
  route(false, false);
  EXPECT_THAT(left(), UnorderedElementsAre(kFirst, kSecond));
  EXPECT_EQ(membership(kFirst), "none");
  EXPECT_EQ(membership(all_routers()), "none");
  tick_to(now + 1h);
  EXPECT_THAT(emitted<GroupsRequest>(), IsEmpty());
}

TEST_F(RoutedGroupsTest, MembershipOfTheHostTakesPrecedence) {
  be_routing({kFirst});
  view.groups = {Ipv4Address(0xef010203)};
  link->on_host_changed(view, now);
  EXPECT_THAT(left(), ElementsAre(kFirst));
  grant_joins();
  EXPECT_EQ(membership(kFirst), "full");
  forget();
  view.groups.clear();
  link->on_host_changed(view, now);
  EXPECT_THAT(joined(), ElementsAre(kFirst)) << "routed again";
}

TEST_F(RoutedGroupsTest, RoutedGroupIsNotCreated) {
  bring_up();
  route();
  grant_joins();
  list({kFirst});
  const auto joins = take<JoinRequest>();
  ASSERT_EQ(joins.size(), 1U);
  EXPECT_EQ(joins[0].components & McMemberRecord::kQKey, 0U);
  link->on_response({joins[0].id, SaFailure(wire::SaStatus::insufficient_components)}, now);
  EXPECT_THAT(emitted<JoinRequest>(), IsEmpty());
}

TEST_F(RoutedGroupsStates, RoutedGroups_Listed_Deadline) {
  be_routing({kFirst});
  const TimePoint listed = now;
  run_until_list();
  EXPECT_GE(now, listed + config.membership_check * 3 / 4);
  EXPECT_LE(now, listed + config.membership_check * 5 / 4);
  list({kSecond});
  EXPECT_EQ(membership(kFirst), "none");
}

TEST_F(RoutedGroupsStates, RoutedGroups_Listed_Reregister) {
  be_routing({kFirst});
  ask_again();
  EXPECT_EQ(membership(kFirst), "routed") << "until the response";
  EXPECT_EQ(take<GroupsRequest>().size(), 1U);
}

/// The list may be older than a report that arrives before it.
TEST_F(RoutedGroupsStates, RoutedGroups_Listing_Notice) {
  be_routing({kFirst});
  ask_again();
  notice(wire::trap::kGroupCreated, kSecond);
  notice(wire::trap::kGroupDeleted, kFirst);
  EXPECT_THAT(joined(), ElementsAre(kSecond));
  EXPECT_EQ(membership(kFirst), "none");
  list({kFirst});
  EXPECT_EQ(membership(kSecond), "joining");
  EXPECT_EQ(membership(kFirst), "none");
  ask_again();
  list({kFirst});
  EXPECT_EQ(membership(kSecond), "none") << "the reports are older than this list";
  EXPECT_EQ(membership(kFirst), "joining");
}

TEST_F(RoutedGroupsStates, RoutedGroups_Listing_Failed) {
  bring_up();
  route();
  Duration longest{};
  for (int i = 0; i < 8; ++i) {
    const auto requests = take<GroupsRequest>();
    ASSERT_EQ(requests.size(), 1U);
    link->on_response({requests[0].id, SaFailure{}}, now);
    const TimePoint failed = now;
    run_until_list();
    longest = std::max(longest, now - failed);
  }
  EXPECT_GE(longest, config.join_backoff.last * 3 / 4);
  EXPECT_LE(longest, config.join_backoff.last * 5 / 4);
}

/// RFC 4391, 12: a failed operation on multicast groups "SHOULD be logged".
TEST_F(RoutedGroupsTest, RFC4391_12_FailedListIsLogged) {
  bring_up();
  const LoggedLines lines;
  route();
  link->on_response({take<GroupsRequest>().at(0).id, SaFailure(wire::SaStatus::request_invalid)},
                    now);
  EXPECT_THAT(lines.all(), testing::Contains(testing::ContainsRegex(
                               "cannot list the groups to route: .*; trying again")));
}

TEST_F(RoutedGroupsStates, RoutedGroups_Listed_LinkDown) {
  be_routing({kFirst});
  port.active = false;
  link->on_port(port, now);
  EXPECT_EQ(membership(kFirst), "none");
  EXPECT_THAT(left(), IsEmpty()) << "the port has lost its memberships";
  notice(wire::trap::kGroupCreated, kSecond);
  EXPECT_THAT(emitted<GroupsRequest>(), IsEmpty());
  forget();
  port.active = true;
  link->on_port(port, now);
  grant_joins();
  list({kFirst});
  EXPECT_THAT(joined(), ElementsAre(kFirst));
}

TEST_F(RoutedGroupsStates, RoutedGroups_Listing_Reregister) {
  bring_up();
  route();
  const auto earlier = take<GroupsRequest>();
  ask_again();
  link->on_response({earlier.at(0).id, wire::McMemberTable{group_record(kFirst)}}, now);
  EXPECT_EQ(membership(kFirst), "none");
  list({kSecond});
  EXPECT_THAT(joined(), ElementsAre(kSecond));
}

TEST_F(RoutedGroupsStates, RoutedGroups_Listing_NoRouter) {
  bring_up();
  route();
  const auto request = take<GroupsRequest>().at(0);
  route(false);
  link->on_response({request.id, wire::McMemberTable{group_record(kFirst)}}, now);
  route();
  EXPECT_THAT(joined(), IsEmpty());
  list({kSecond});
  EXPECT_THAT(joined(), ElementsAre(kSecond));
}

TEST_F(RoutedGroupsTest, NumberIsLimited) {
  config.limits.routed_groups = 2;
  bring_up();
  route();
  list({mgid(0xef000002), mgid(0xef000003)});
  EXPECT_EQ(joined().size(), 2U);
  EXPECT_EQ(count(Counter::host_groups_left_out), 0U);
  grant_joins();
  forget();
  ask_again();
  list({mgid(0xef000001), mgid(0xef000002), mgid(0xef000003)});
  EXPECT_EQ(count(Counter::host_groups_left_out), 1U);
  EXPECT_THAT(left(), IsEmpty()) << "the first ones stay";
}

}  // namespace
}  // namespace ipoib::link
