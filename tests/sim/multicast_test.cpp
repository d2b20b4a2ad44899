// RFC 4391, 4 and 10, and RFC 4392: which multicast groups there are, who is in them and how, as
// the subnet administrator sees it.
#include "tests/sim/sim_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::sim {
namespace {

using wire::McMemberRecord;

constexpr Ipv4Address kGroup{0xef010203};
constexpr Ipv4Address kMdns{0xe00000fb};
constexpr Ipv4Address kAllRouters{0xe0000002};

class Multicast : public Sim {
 protected:
  using Sim::Sim;

  [[nodiscard]] static Gid mgid_of(Ipv4Address group) {
    return wire::multicast_gid(group, kDefaultPKey);
  }
  /// How a host is in a group; 0: not at all.
  [[nodiscard]] std::uint8_t join_state(const Gid& mgid, const Host& host) {
    for (const softib::GroupView& group : world.subnet().groups()) {
      if (group.mgid != mgid) continue;
      for (const auto& member : group.members) {
        if (member.node == host.node()) return member.join_state;
      }
    }
    return 0;
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
  static softib::SubnetConfig without_group() {
    softib::SubnetConfig subnet;
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
      << "its low 80 bits";
}

TEST_F(WithoutAnyGroup, RFC4391_4_1_ScopeIsLinkLocalUnlessToldOtherwise) {
  two_hosts();
  EXPECT_GE(world.subnet().groups().size(), 3U);
  for (const softib::GroupView& group : world.subnet().groups()) {
    EXPECT_EQ(group.mgid.bytes()[1], 0x12);
  }
}

TEST_F(WithoutAnyGroup, RFC4391_4_GroupsHaveTheScopeOfTheBroadcastGroup) {
  config.scope = 5;
  two_hosts();
  b().set_groups({kGroup});
  world.run_for(1s);
  EXPECT_GE(world.subnet().groups().size(), 3U);
  for (const softib::GroupView& group : world.subnet().groups()) {
    EXPECT_EQ(group.mgid.bytes()[0], 0xff);
    EXPECT_EQ(group.mgid.bytes()[1], 0x15) << "transient, and of this scope";
  }
  EXPECT_TRUE(reaches(a(), b()));
}

TEST_F(WithoutAnyGroup, RFC4391_4_1_ControlledQKeyIsUsedInAllTraffic) {
  constexpr QKey kControlled{0x80000b1b};
  config.creation.qkey = kControlled;
  bool always = true;
  world.tap = [&](ConstBytes packet) {
    always = always && wire::UdPacket::parse(packet)->deth.qkey == kControlled;
    return true;
  };
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_GT(world.packets_sent, 2U);
  EXPECT_TRUE(always);
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
  const auto groups = world.subnet().groups();
  const Lid mlid = std::ranges::find(groups, mgid_of(kGroup), &softib::GroupView::mgid)->mlid;
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
  EXPECT_EQ(hosts[3]->received(), 0U) << "who is not in the group hears nothing";
  EXPECT_EQ(a().received(), 0U) << "nor does the sender";
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
  EXPECT_TRUE(world.run_until([&] { return a().count(Counter::drop_no_group) == 1; }, 1s))
      << "what stays on the link is no router's";
}

TEST_F(Multicast, RFC4391_10_GroupOfTheHostIsLikeTheBroadcastGroup) {
  two_hosts();
  join(b(), kGroup);
  const auto groups = world.subnet().groups();
  const auto find = [&](const Gid& mgid) {
    return std::ranges::find(groups, mgid, &softib::GroupView::mgid);
  };
  const auto made = find(mgid_of(kGroup));
  const auto broadcast = find(wire::broadcast_gid(kDefaultPKey));
  ASSERT_NE(made, groups.end());
  EXPECT_EQ(made->pkey, broadcast->pkey);
  EXPECT_EQ(made->qkey, broadcast->qkey);
  EXPECT_EQ(made->sl, broadcast->sl);
  EXPECT_EQ(made->mtu, broadcast->mtu);
  EXPECT_EQ(made->rate, broadcast->rate);
}

TEST_F(Multicast, RFC4391_10_LastLeaveOfTheHostLeavesTheGroup) {
  two_hosts();
  join(b(), kGroup);
  b().set_groups({});
  EXPECT_TRUE(world.run_until([&] { return join_state(mgid_of(kGroup), b()) == 0; }, 1s));
  EXPECT_NE(join_state(wire::broadcast_gid(kDefaultPKey), b()), 0) << "but not this one";
}

TEST_F(Multicast, RFC4392_5_3_IdleSenderLeavesAndNoReceiverDoes) {
  two_hosts();
  join(b(), kGroup);
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
  for (int i = 0; i < 3; ++i) {
    world.run_for(config.send_only_idle / 2);
    a().send(kGroup);
    EXPECT_NE(join_state(mgid_of(kGroup), a()), 0) << "each packet starts the time anew";
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
