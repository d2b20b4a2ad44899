// RFC 4391, 4.1, 5, 9.1.2 and 10: all traffic of a link, and all its groups, have the parameters of
// the broadcast group. Here these are no defaults, and only the host that creates the group knows
// them: the others learn them from the SA.
#include "tests/sim/sim_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::sim {
namespace {

constexpr link::GroupCreation kCreation{.allowed = true,
                                        .qkey = QKey(0x12345678),
                                        .mtu = 3,
                                        .rate = 2,
                                        .sl = ServiceLevel(5),
                                        .flow_label = 0xabcde,
                                        .hop_limit = 7,
                                        .traffic_class = 0x5a};
constexpr Ipv4Address kHostGroup{0xef010203};

class GroupOfAnotherHost : public Sim {
 protected:
  GroupOfAnotherHost() : Sim(without_group()) {}

  static softib::subnet::SubnetConfig without_group() {
    softib::subnet::SubnetConfig subnet;
    subnet.partitions.front().broadcast_group = false;
    return subnet;
  }
  /// The first host creates the group; the others have the default settings.
  void three_hosts(const link::GroupCreation& creation = kCreation) {
    config.creation = creation;
    add(1);
    bring_up();
    config.creation = {};
    add(2);
    add(3);
    bring_up();
    world.run_for(5s);
  }
  /// Whether each packet between the second and the third host has this Q_Key.
  [[nodiscard]] bool always_has(QKey qkey) {
    std::size_t others = 0;
    std::size_t packets = 0;
    world.tap = [&](ConstBytes packet) {
      const auto ud = wire::UdPacket::parse(packet);
      ++packets;
      others += ud->deth.qkey == qkey && ud->bth.pkey == kDefaultPKey ? 0U : 1U;
      return true;
    };
    EXPECT_TRUE(reaches(b(), *hosts[2]));
    EXPECT_TRUE(reaches(*hosts[2], b()));
    b().send(Ipv4Address(0xffffffff));
    EXPECT_TRUE(world.run_until([&] { return a().received() == 1; }, 1s));
    world.tap = nullptr;
    return packets >= 5 && others == 0;
  }
};

TEST_F(GroupOfAnotherHost, RFC4391_5_MtuAndQKeyAreThoseOfTheBroadcastGroup) {
  three_hosts();
  for (const auto& host : hosts) {
    EXPECT_EQ(host->tun().mtu, 1020U);
    EXPECT_EQ(host->link().qkey(), kCreation.qkey);
  }
}

TEST_F(GroupOfAnotherHost, RFC4391_9_1_2_QKeyOfTheBroadcastGroupInAllTraffic) {
  three_hosts();
  EXPECT_TRUE(always_has(kCreation.qkey));
}

TEST_F(GroupOfAnotherHost, RFC4391_4_1_ControlledQKeyIsUsedInAllTraffic) {
  auto creation = kCreation;
  creation.qkey = QKey(0x80001234);
  three_hosts(creation);
  EXPECT_TRUE(always_has(creation.qkey));
}

TEST_F(GroupOfAnotherHost, RFC4391_10_HostGroupHasTheParametersOfTheBroadcastGroup) {
  three_hosts();
  b().set_groups({kHostGroup});
  world.run_for(1s);
  const Gid mgid = wire::multicast_gid(kHostGroup, kDefaultPKey);
  const auto groups = world.subnet().groups();
  const auto made = std::ranges::find(groups, mgid, &softib::subnet::GroupView::mgid);
  ASSERT_NE(made, groups.end());
  EXPECT_EQ(made->pkey, kDefaultPKey);
  EXPECT_EQ(made->qkey, kCreation.qkey);
  EXPECT_EQ(made->sl, kCreation.sl);
  EXPECT_EQ(made->mtu, kCreation.mtu);
  EXPECT_EQ(made->rate, kCreation.rate);

  // The SA gives the sender what the creator has chosen.
  std::size_t packets = 0;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    if (!ud->grh || ud->grh->dgid != mgid) return true;
    ++packets;
    EXPECT_EQ(ud->grh->hop_limit, kCreation.hop_limit);
    EXPECT_EQ(ud->grh->traffic_class, kCreation.traffic_class);
    EXPECT_EQ(ud->grh->flow_label, kCreation.flow_label);
    EXPECT_EQ(ud->lrh.sl, kCreation.sl);
    return true;
  };
  hosts[2]->send(kHostGroup);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
  EXPECT_EQ(packets, 1U);
}

}  // namespace
}  // namespace ipoib::sim
