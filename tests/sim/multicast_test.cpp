// RFC 4391, 4 and 10, and RFC 4392: multicast groups and their members, as the SA sees them.
#include "tests/sim/sim_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::sim {
namespace {

using wire::McMemberRecord;

constexpr Ipv4Address kGroup{0xef010203};
constexpr Ipv4Address kOther{0xef010204};
constexpr Ipv4Address kMdns{0xe00000fb};
constexpr Ipv4Address kAllRouters{0xe0000002};

class Multicast : public Sim {
 protected:
  using Sim::Sim;

  [[nodiscard]] static Gid mgid_of(Ipv4Address group) {
    return wire::multicast_gid(group, kDefaultPKey);
  }
  /// JoinState of a host; 0: not a member.
  [[nodiscard]] std::uint8_t join_state(const Gid& mgid, const Host& host) {
    for (const softib::subnet::GroupView& group : world.subnet().groups()) {
      if (group.mgid != mgid) continue;
      for (const auto& member : group.members) {
        if (member.node == host.node()) return member.join_state;
      }
    }
    return 0;
  }
  /// The MLID; zero if the group does not exist.
  [[nodiscard]] Lid mlid_of(Ipv4Address group) {
    const auto groups = world.subnet().groups();
    const auto at = std::ranges::find(groups, mgid_of(group), &softib::subnet::GroupView::mgid);
    return at == groups.end() ? Lid() : at->mlid;
  }
  /// The last member leaves a group, and another host creates a group that gets its MLID.
  void replace(Host& member, Ipv4Address group, Host& other, Ipv4Address by) {
    const Lid lid = mlid_of(group);
    member.set_groups({});
    ASSERT_TRUE(world.run_until([&] { return mlid_of(group) == Lid(); }, 1s));
    join(other, by);
    ASSERT_EQ(mlid_of(by), lid);
  }
  /// Checks that a packet of `from` to the group arrives at `to`, and that none has that MLID.
  [[nodiscard]] bool reaches_but_not_by(Lid lid, Host& from, Ipv4Address group, Host& to) {
    bool never = true;
    world.tap = [&](ConstBytes packet) {
      never = never && wire::UdPacket::parse(packet)->lrh.dlid != lid;
      return true;
    };
    const std::size_t before = to.received();
    from.send(group);
    const bool arrives = world.run_until([&] { return to.received() > before; }, 1s);
    world.tap = nullptr;
    return arrives && never;
  }
  void join(Host& host, Ipv4Address group) {
    host.set_groups({group});
    ASSERT_TRUE(world.run_until(
        [&] { return join_state(mgid_of(group), host) == McMemberRecord::kFullMember; }, 1s));
  }
};

class WithoutAnyGroup : public Multicast {
 protected:
  WithoutAnyGroup() : Multicast(without_group()) { config.creation.allowed = true; }
  static softib::subnet::SubnetConfig without_group() {
    softib::subnet::SubnetConfig subnet;
    subnet.partitions.front().broadcast_group = false;
    return subnet;
  }
};

TEST_F(Multicast, RFC4391_4_Ipv4GroupHasItsMgid) {
  two_hosts();
  join(b(), kGroup);
  EXPECT_EQ(join_state(*Gid::parse("ff12:401b:ffff::f01:203"), b()), McMemberRecord::kFullMember);
}

TEST_F(Multicast, RFC4391_4_Ipv6GroupHasItsMgid) {
  two_hosts();
  b().set_groups({*Ipv6Address::parse("ff05::1:2:3:4:5:6")});
  world.run_for(1s);
  EXPECT_EQ(join_state(*Gid::parse("ff12:601b:ffff:2:3:4:5:6"), b()), McMemberRecord::kFullMember)
      << "the low 80 bits";
}

TEST_F(WithoutAnyGroup, RFC4391_4_1_ScopeIsLinkLocalByDefault) {
  two_hosts();
  EXPECT_GE(world.subnet().groups().size(), 3U);
  for (const softib::subnet::GroupView& group : world.subnet().groups()) {
    EXPECT_EQ(group.mgid.bytes()[1], 0x12);
  }
}

TEST_F(WithoutAnyGroup, RFC4391_4_GroupsHaveTheScopeOfTheBroadcastGroup) {
  config.scopes = {5};
  two_hosts();
  b().set_groups({kGroup});
  world.run_for(1s);
  EXPECT_GE(world.subnet().groups().size(), 3U);
  for (const softib::subnet::GroupView& group : world.subnet().groups()) {
    EXPECT_EQ(group.mgid.bytes()[0], 0xff);
    EXPECT_EQ(group.mgid.bytes()[1], 0x15) << "transient, with this scope";
  }
  EXPECT_TRUE(reaches(a(), b()));
}

TEST_F(Multicast, RFC4391_5_EachInterfaceIsAFullMemberOfTheBroadcastGroup) {
  add_many(3);
  bring_up();
  for (const auto& host : hosts) {
    EXPECT_EQ(join_state(wire::broadcast_gid(kDefaultPKey), *host), McMemberRecord::kFullMember);
  }
}

TEST_F(Multicast, RFC4391_10_SenderJoinsBeforeItSendsAndReceiversAreFullMembers) {
  add_many(4);
  bring_up();
  join(*hosts[1], kGroup);
  join(*hosts[2], kGroup);
  const Lid mlid = mlid_of(kGroup);
  world.tap = [&](ConstBytes packet) {
    if (wire::UdPacket::parse(packet)->lrh.dlid == mlid) {
      EXPECT_EQ(join_state(mgid_of(kGroup), a()), McMemberRecord::kSendOnlyNonMember);
    }
    return true;
  };
  a().send(kGroup);
  EXPECT_TRUE(
      world.run_until([&] { return hosts[1]->received() == 1 && hosts[2]->received() == 1; }, 1s));
  world.run_for(1s);
  EXPECT_EQ(hosts[3]->received(), 0U) << "no member";
  EXPECT_EQ(a().received(), 0U) << "the sender";
}

TEST_F(Multicast, RFC4391_10_WithoutAGroupPacketsGoToTheRouters) {
  add_many(3);
  bring_up();
  join(*hosts[2], kAllRouters);
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return hosts[2]->received() == 1; }, 1s));
  EXPECT_EQ(a().count(Counter::multicast_by_routers), 1U);
  EXPECT_EQ(b().received(), 0U);
  a().send(kMdns);
  EXPECT_TRUE(world.run_until([&] { return a().count(Counter::multicast_unheard) == 1; }, 1s))
      << "link-local packets do not go to routers";
}

TEST_F(Multicast, RFC4391_11_RouterReceivesTheGroupsOfTheLink) {
  add_many(3);
  bring_up();
  Host& router = *hosts[2];
  join(b(), kGroup);
  router.route_multicast(true);
  const auto is_routed = [&](Ipv4Address group) {
    return join_state(mgid_of(group), router) == McMemberRecord::kNonMember;
  };
  EXPECT_TRUE(world.run_until([&] { return is_routed(kGroup); }, 1s));
  const auto receives = [&](Ipv4Address group) {
    const std::size_t before = router.received_from(a().ip());
    a().send(group);
    return world.run_until([&] { return router.received_from(a().ip()) > before; }, 1s);
  };
  EXPECT_TRUE(receives(kGroup));
  b().set_groups({kGroup, kOther});
  EXPECT_TRUE(world.run_until([&] { return is_routed(kOther); }, 1s)) << "the SA reports it";
  b().set_groups({kOther});
  EXPECT_TRUE(world.run_until([&] { return mlid_of(kGroup) == Lid(); }, 1s))
      << "a NonMember does not keep a group";
  world.run_for(1s);
  EXPECT_TRUE(receives(kGroup)) << "by the all-routers group";
  router.route_multicast(false);
  EXPECT_TRUE(world.run_until([&] { return !is_routed(kOther); }, 1s));
  EXPECT_FALSE(receives(kOther));
}

TEST_F(Multicast, RFC4391_10_LastLeaveOfTheHostLeavesTheGroup) {
  two_hosts();
  join(b(), kGroup);
  b().set_groups({});
  EXPECT_TRUE(world.run_until([&] { return join_state(mgid_of(kGroup), b()) == 0; }, 1s));
  EXPECT_NE(join_state(wire::broadcast_gid(kDefaultPKey), b()), 0) << "still a member";
}

TEST_F(Multicast, RFC4391_10_CreatedAndDeletedGroupsAreReported) {
  two_hosts();
  for (int round = 0; round < 2; ++round) {
    const std::uint64_t before = a().sa_counters().reports;
    join(b(), kGroup);
    world.run_for(1s);
    EXPECT_EQ(a().sa_counters().reports, before + 1) << "trap 66";
    b().set_groups({});
    world.run_for(1s);
    EXPECT_EQ(a().sa_counters().reports, before + 2) << "trap 67, not repeated";
    world.restart_sm();  // loses the subscriptions
    world.run_for(10s);
  }
}

TEST_F(Multicast, RFC4391_10_CreatedGroupIsUsed) {
  config.missing_group = 24h;
  two_hosts();
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return a().count(Counter::multicast_unheard) == 1; }, 1s));
  join(b(), kGroup);
  world.run_for(1s);
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
}

TEST_F(Multicast, RFC4391_10_DeletedGroupIsRequestedAgain) {
  two_hosts();
  join(b(), kGroup);
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
  b().set_groups({});
  world.run_for(1s);
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return a().count(Counter::multicast_unheard) == 1; }, 1s));
}

TEST_F(Multicast, RFC4392_5_SenderDoesNotUseTheLidOfADeletedGroup) {
  add_many(3);
  bring_up();
  join(b(), kGroup);
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
  replace(b(), kGroup, *hosts[2], kOther);
  join(b(), kGroup);
  EXPECT_TRUE(reaches_but_not_by(mlid_of(kOther), a(), kGroup, b()));
}

TEST_F(Multicast, RFC4392_5_ReceiverFollowsItsGroupToAnotherLid) {
  HostOptions without_reports = options(2);
  without_reports.takes_reports = false;
  add(1);
  add(without_reports);
  add(3);
  Host& beside_it = add(beside(2, 4));  // its leave affects the whole port
  bring_up();
  join(b(), kGroup);
  join(beside_it, kGroup);
  replace(beside_it, kGroup, *hosts[2], kOther);
  world.run_for(config.membership_check * 2);
  EXPECT_TRUE(reaches_but_not_by(mlid_of(kOther), a(), kGroup, b()));
}

TEST_F(Multicast, RFC4391_10_GroupsWithOneLidAreDistinguishedByGid) {
  two_hosts();
  join(b(), kGroup);
  std::vector<std::uint8_t> packet;
  const auto is_to_the_group = [&](ConstBytes bytes) {
    const auto parsed = wire::UdPacket::parse(bytes);
    return parsed && parsed->lrh.dlid == mlid_of(kGroup);
  };
  world.tap = [&](ConstBytes sent) {
    packet.assign(sent.begin(), sent.end());
    return !is_to_the_group(sent);
  };
  a().send(kGroup);
  ASSERT_TRUE(world.run_until([&] { return is_to_the_group(packet); }, 1s));
  world.tap = nullptr;
  constexpr std::ptrdiff_t kDestinationGid = 32;  // of LRH and GRH
  std::ranges::copy(mgid_of(kOther).bytes(), packet.begin() + kDestinationGid);
  const auto b_receives = [&] {
    (void)b().receive(packet);
    b().turn();
    return b().received();
  };
  // An HCA may distinguish groups only by LID.
  ASSERT_TRUE(b().queue_pair().attach(mgid_of(kOther), mlid_of(kGroup)));
  EXPECT_EQ(b_receives(), 0U);
  EXPECT_EQ(b().count(Counter::drop_foreign_group), 1U);
  b().set_groups({kGroup, kOther});
  world.run_for(1s);
  EXPECT_EQ(b_receives(), 1U);
}

TEST_F(Multicast, RFC4392_5_3_IdleSenderLeavesAndNoReceiverDoes) {
  two_hosts();
  join(b(), kGroup);
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
  for (int i = 0; i < 3; ++i) {
    world.run_for(config.send_only_idle / 2);
    a().send(kGroup);
    EXPECT_NE(join_state(mgid_of(kGroup), a()), 0) << "each packet restarts the idle time";
  }
  world.run_for(config.send_only_idle * 2 + 1s);
  EXPECT_EQ(join_state(mgid_of(kGroup), a()), 0);
  EXPECT_EQ(join_state(mgid_of(kGroup), b()), McMemberRecord::kFullMember);
  EXPECT_NE(join_state(wire::broadcast_gid(kDefaultPKey), a()), 0) << "never left while it is up";
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 5; }, 1s)) << "it joins again";
}

}  // namespace
}  // namespace ipoib::sim
