// RFC 4391 clause by clause, on the emulated subnet.
#include <spdlog/sinks/ringbuffer_sink.h>

#include "ipoib/log.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::sim {
namespace {

/// A subnet with these partition options.
softib::subnet::SubnetConfig subnet_with(std::uint8_t mtu, bool broadcast_group,
                                         PKey pkey = kDefaultPKey) {
  softib::subnet::SubnetConfig config;
  config.mtu = mtu;
  softib::subnet::Partition& partition = config.partitions.front();
  partition.broadcast_group = broadcast_group;
  if (pkey != kDefaultPKey) {
    softib::subnet::Partition other = partition;
    other.pkey = pkey;
    config.partitions.push_back(other);
  }
  return config;
}

class Rfc4391 : public Sim {};
class WithoutGroup : public Sim {
 protected:
  WithoutGroup() : Sim(subnet_with(4, false)) {}
};
class WithGroupsOfAnyMtu : public Sim {
 protected:
  WithGroupsOfAnyMtu() : Sim(subnet_with(5, false)) { config.creation.allowed = true; }
  /// Host `maker` creates the groups again with this MTU, while the first host is down.
  void make_group(std::uint32_t maker, std::uint8_t mtu) {
    set_port(softib::PortState::down);
    while (hosts.size() > 1) {
      hosts.back()->shut_down();
      world.run_for(1s);
      hosts.pop_back();
    }
    config.creation.mtu = mtu;
    add(maker);
    ASSERT_TRUE(world.run_until([&] { return b().is_up(); }, 60s));
    set_port(softib::PortState::active);
    bring_up();
  }

 private:
  void set_port(softib::PortState state) {
    world.subnet().set_port_state(a().node(), state).value();
    world.publish();
  }
};
class WithMtu4096 : public Sim {
 protected:
  WithMtu4096() : Sim(subnet_with(5, true)) {}
};
class WithPartition : public Sim {
 protected:
  WithPartition() : Sim(subnet_with(4, true, PKey(0x8012))) {}
};

TEST_F(Rfc4391, RFC4391_4_BroadcastsGoToTheBroadcastGroup) {
  add_many(5);
  bring_up();
  a().send(Ipv4Address(0xffffffff));
  a().send(Ipv4Address(0x0a2cffff));
  world.run_for(1s);
  EXPECT_EQ(a().received(), 0U) << "not to itself";
  for (std::size_t i = 1; i < hosts.size(); ++i) EXPECT_EQ(hosts[i]->received_from(a().ip()), 2U);
}

TEST_F(WithPartition, RFC4391_4_EachPartitionIsALink) {
  config.pkey = PKey(0x0012);
  two_hosts();
  config.pkey = kDefaultPKey;
  Host& outside_the_partition = add(3);
  bring_up();
  for (const link::GroupInfo& group : a().link().groups()) {
    EXPECT_EQ(group.mgid.bytes()[4], 0x80) << "RFC 4391, 4.1: the full-member bit is set";
    EXPECT_EQ(group.mgid.bytes()[5], 0x12);
  }
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_FALSE(reaches(a(), outside_the_partition, 20s));
}

class WithLimitedMembers : public Sim {
 protected:
  WithLimitedMembers() : Sim(limited()) { config.pkey = PKey(0x8012); }
  static softib::subnet::SubnetConfig limited() {
    softib::subnet::SubnetConfig subnet = subnet_with(4, true, PKey(0x8012));
    subnet.partitions.back().others = softib::subnet::Membership::limited;
    subnet.partitions.back().members = {{"hca3", softib::subnet::Membership::full}};
    return subnet;
  }
};

TEST_F(WithLimitedMembers, RFC4392_4_LimitedMembersReachOnlyFullMembers) {
  add_many(3);
  bring_up();
  world.run_for(5s);
  Host& full = *hosts[2];
  EXPECT_TRUE(reaches(a(), full));
  EXPECT_TRUE(reaches(full, b()));
  EXPECT_FALSE(reaches(a(), b(), 20s));
}

TEST_F(WithLimitedMembers, RFC4392_4_FullMemberEntryIsPreferred) {
  add(3);
  add(2);
  bring_up();
  // A full member whose P_Key table has the limited entry first.
  softib::PortAttributes port = world.subnet().node(a().node())->port;
  const auto full = std::ranges::find(port.pkeys, config.pkey);
  *std::ranges::find_if(port.pkeys, [](PKey one) { return !one.is_valid(); }) = *full;
  *full = PKey(0x0012);
  a().port_changed(port);
  a().turn();
  EXPECT_FALSE(a().is_up()) << "the queue pair gets the other P_Key";
  bring_up();
  bool always = true;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    always = always && (ud->deth.source != a().hardware().qpn || ud->bth.pkey.is_full());
    return true;
  };
  EXPECT_TRUE(keeps_trying(a(), b(), 20s)) << "the other one is a limited member";
  EXPECT_TRUE(keeps_trying(b(), a(), 20s));
  EXPECT_TRUE(always);
}

TEST_F(Rfc4391, RFC4391_5_JoinsBroadcastGroupBeforeUse) {
  world.faults.sa_drops_requests = true;
  Host& host = add(1);
  add(2);
  world.run_for(30s);
  EXPECT_FALSE(host.is_up());
  EXPECT_EQ(host.link().state(), LinkState::joining);
  host.send(address_of(2));
  world.run_for(1s);
  EXPECT_EQ(world.packets_sent, 0U);
  EXPECT_EQ(host.count(Counter::drop_link_down), 1U);
  world.faults.sa_drops_requests = false;
  bring_up();
  EXPECT_TRUE(reaches(a(), b()));
}

TEST_F(WithoutGroup, RFC4391_5_FirstNodeMayCreateTheBroadcastGroup) {
  config.creation.allowed = true;
  config.creation.qkey = QKey(0x4711);
  config.creation.mtu = 3;
  add(1);
  bring_up();
  config.creation = {};
  add(2);
  bring_up();
  EXPECT_EQ(a().tun().mtu, 1020U);
  EXPECT_EQ(b().tun().mtu, 1020U);
  EXPECT_EQ(b().link().qkey(), QKey(0x4711));
  EXPECT_TRUE(reaches(a(), b()));
}

TEST_F(WithoutGroup, RFC4391_5_WaitsForTheGroupIfItMayNotCreateIt) {
  Host& host = add(1);
  world.run_for(5min);
  EXPECT_EQ(host.link().state(), LinkState::joining);
  EXPECT_LE(host.sa_counters().requests, 30U) << "with a back-off of up to 16 s";
  config.creation.allowed = true;
  add(2);
  bring_up();
}

TEST_F(Rfc4391, RFC4391_6_ReservedIsZeroOnSend) {
  two_hosts();
  bool all_zero = true;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    if (!ud || ud->payload.size() < wire::kEncapsulationSize) return true;
    all_zero = all_zero && ud->payload[2] == 0 && ud->payload[3] == 0;
    return true;
  };
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_TRUE(all_zero);
}

TEST_F(Rfc4391, RFC4391_7_MtuIs2044ByDefault) {
  two_hosts();
  EXPECT_EQ(a().tun().mtu, 2044U);
  a().send(b().ip(), 1, 1, 2044);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
  EXPECT_EQ(b().tun().from_fabric[0].size(), 2044U);
  a().send(b().ip(), 1, 1, 2045);
  world.run_for(1s);
  EXPECT_EQ(b().received(), 1U);
  EXPECT_EQ(a().count(Counter::drop_packet_too_big), 1U);
}

TEST_F(Rfc4391, RFC4391_7_SmallerPathMtuIsRespected) {
  two_hosts();
  ASSERT_TRUE(world.subnet().set_mtu(b().node(), 3));
  world.publish();
  EXPECT_EQ(a().tun().mtu, 2044U) << "of the link";
  a().send(b().ip(), 1, 1, 1020);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
  a().send(b().ip(), 2, 1, 1021);
  EXPECT_TRUE(world.run_until([&] { return a().received_from(b().ip()) == 1; }, 1s));
  EXPECT_EQ(a().count(Counter::too_big_answers), 1U);
  EXPECT_EQ(b().received(), 1U);
}

TEST_F(Rfc4391, RFC791_PacketWithoutDfIsFragmentedToTheMtuOfThePath) {
  two_hosts();
  ASSERT_TRUE(world.subnet().set_mtu(b().node(), 3));
  world.publish();
  constexpr std::size_t kSize = 2000;
  auto packet = ip_packet(a().ip(), b().ip(), 1, kSize);
  packet[6] = 0;  // DF
  a().send(packet);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 2; }, 1s));
  EXPECT_EQ(a().received(), 0U) << "no ICMP error";
  std::size_t payload = 0;
  for (const auto& fragment : b().tun().from_fabric) {
    EXPECT_LE(fragment.size(), 1020U);
    payload += fragment.size() - 20;
  }
  EXPECT_EQ(payload, kSize - 20);
}

TEST_F(WithMtu4096, RFC4391_7_MtuIsThatOfTheGroupMinusFour) {
  two_hosts();
  EXPECT_EQ(a().tun().mtu, 4092U);
  a().send(b().ip(), 1, 1, 4092);
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
}

TEST_F(WithGroupsOfAnyMtu, RFC4391_7_OperatorMaySetASmallerMtu) {
  add(1);
  make_group(2, 5);
  ASSERT_EQ(a().tun().mtu, 4092U);
  a().tun().mtu = 1500;  // ip link set
  make_group(3, 4);
  EXPECT_EQ(a().tun().mtu, 1500U);
  b().send(a().ip(), 1, 1, 2044);
  EXPECT_TRUE(world.run_until([&] { return a().received() == 1; }, 1s)) << "received anyway";
  make_group(4, 3);
  EXPECT_EQ(a().tun().mtu, 1020U) << "at most that of the link";
  make_group(5, 5);
  EXPECT_EQ(a().tun().mtu, 1500U);
}

TEST_F(Rfc4391, RFC4391_9_1_1_HardwareAddressIsQpnAndGid) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  const auto entry = a().link().get(b().ip(), world.now());
  ASSERT_TRUE(entry && entry->hardware);
  EXPECT_EQ(*entry->hardware, b().link().hardware_address());
  EXPECT_EQ(entry->hardware->flags, 0);
  EXPECT_EQ(entry->hardware->gid, world.subnet().node(b().node())->port.gid());
}

TEST_F(Rfc4391, RFC4391_9_2_ArpIsOfHardwareType32) {
  two_hosts();
  std::vector<std::vector<std::uint8_t>> messages;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    if (wire::parse_encapsulation(ud->payload) == wire::EtherType::arp) {
      messages.emplace_back(ud->payload.begin() + 4, ud->payload.end());
    }
    return true;
  };
  EXPECT_TRUE(reaches(a(), b()));
  ASSERT_EQ(messages.size(), 2U) << "a request and its reply";
  for (const auto& message : messages) {
    EXPECT_EQ(message.size(), 56U);
    EXPECT_EQ((std::vector<std::uint8_t>(message.begin(), message.begin() + 7)),
              (std::vector<std::uint8_t>{0, 32, 8, 0, 20, 4, 0}));
  }
}

TEST_F(Rfc4391, RFC4391_9_4_RestartedPeerAnnouncesItsNewQpn) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  const Qpn before = a().link().get(b().ip(), world.now())->hardware->qpn;
  const auto requests = a().sa_counters().requests;
  remove(b());
  HostOptions again = options(2);
  again.epoch = 2;
  add(again);
  bring_up();
  world.run_for(1s);
  EXPECT_NE(a().link().get(b().ip(), world.now())->hardware->qpn, before);
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_EQ(a().sa_counters().requests, requests) << "the same port: the path is kept";
}

TEST_F(Rfc4391, RFC4391_9_4_RestartWithoutAnnouncementIsFoundByProbes) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  // All announcements of the new process are lost.
  world.tap = [](ConstBytes packet) {
    const auto arp = arp_in(packet);
    return !arp || arp->sender_protocol != arp->target_protocol;
  };
  remove(b());
  HostOptions again = options(2);
  again.epoch = 2;
  add(again);
  bring_up();
  EXPECT_FALSE(reaches(a(), b())) << "sent to the old queue pair";
  const link::Ageing& ageing = config.ageing;
  const Duration limit =
      ageing.reachable * 3 / 2 + ageing.delay + ageing.retransmit * (ageing.unicast_probes + 1);
  EXPECT_TRUE(keeps_trying(a(), b(), limit + 1s));
}

TEST_F(Rfc4391, RFC4391_10_AllNodesGroupHasTheParametersOfTheBroadcastGroup) {
  two_hosts();
  const auto groups = world.subnet().groups();
  const auto all_nodes =
      std::ranges::find(groups, wire::multicast_gid(Ipv4Address(0xe0000001), kDefaultPKey),
                        &softib::subnet::GroupView::mgid);
  const auto broadcast = std::ranges::find(groups, wire::broadcast_gid(kDefaultPKey),
                                           &softib::subnet::GroupView::mgid);
  ASSERT_NE(all_nodes, groups.end());
  EXPECT_EQ(all_nodes->members.size(), 2U);
  EXPECT_EQ(all_nodes->qkey, broadcast->qkey);
  EXPECT_EQ(all_nodes->mtu, broadcast->mtu);
  EXPECT_EQ(all_nodes->rate, broadcast->rate);
  a().send(Ipv4Address(0xe0000001));
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
  a().send(Ipv4Address(0xe0000002));
  world.run_for(1s);
  EXPECT_EQ(a().count(Counter::multicast_unheard), 1U) << "there are no routers";
}

TEST_F(WithoutGroup, RFC4391_12_FailedJoinIsLogged) {
  const auto lines = std::make_shared<spdlog::sinks::ringbuffer_sink_st>(8);
  Logger log("sim", lines);
  HostOptions chosen = options(1);
  chosen.log = log;
  add(chosen);
  world.run_for(1s);
  const std::string expected =
      "broadcast group " + wire::broadcast_gid(kDefaultPKey).to_string() +
      ": join: " + wire::SaFailure(wire::SaStatus::insufficient_components).text();
  const auto logged = lines->last_raw();
  EXPECT_TRUE(std::ranges::any_of(logged, [&](const auto& line) {
    return line.level == spdlog::level::warn &&
           std::string_view(line.payload.data(), line.payload.size()).starts_with(expected);
  }));
  hosts.clear();  // before its log
}

TEST_F(Rfc4391, RFC4391_10_LeavesItsGroupsWhenItEnds) {
  two_hosts();
  a().shut_down();
  EXPECT_FALSE(a().is_up());
  world.run_for(5s);
  for (const softib::subnet::GroupView& group : world.subnet().groups()) {
    for (const auto& member : group.members) EXPECT_EQ(member.node, b().node());
  }
}

}  // namespace
}  // namespace ipoib::sim
