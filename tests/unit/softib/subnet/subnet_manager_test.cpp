#include "softib/subnet/subnet_manager.hpp"

#include <gtest/gtest.h>

#include <set>

#include "sa_client.hpp"
#include "softib/topology/guids.hpp"

namespace softib::subnet {
namespace {

SubnetConfig with_partitions(const std::vector<std::string>& options) {
  SubnetConfig config;
  config.partitions = make_partitions(options).value();
  return config;
}

TEST(SubnetManager, NodeZeroIsTheSmPort) {
  const SubnetManager manager{SubnetConfig{}};
  const Node* sm = manager.node(0);
  ASSERT_NE(sm, nullptr);
  EXPECT_EQ(sm->port.lid, kSmLid);
  EXPECT_EQ(sm->port.state, PortState::active);
  EXPECT_EQ(sm->port.pkeys[0], PKey(0xffff));
}

TEST(SubnetManager, NodesGetAscendingLidsAndComeUp) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a").value();
  const auto b = manager.add("b").value();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 2);
  EXPECT_EQ(manager.node(a)->port.lid, Lid(2));
  EXPECT_EQ(manager.node(b)->port.lid, Lid(3));
  EXPECT_EQ(manager.node(b)->port.sm_lid, kSmLid);
  EXPECT_EQ(manager.node(b)->port.state, PortState::active);
  EXPECT_EQ(manager.node_at(Lid(3)), b);
  EXPECT_EQ(manager.find("b"), b);
}

TEST(SubnetManager, HcaMayBeConnectedByItsSecondPort) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a", 2).value();
  const auto& port = manager.node(a)->port;
  EXPECT_EQ(port.number, 2);
  EXPECT_EQ(port.port_guid.value(), port.node_guid.value() + 2);
  EXPECT_EQ(manager.add("a").value(), a);
  EXPECT_EQ(manager.add("a", 2).value(), a);
  EXPECT_EQ(manager.add("a", 1).error().code, EINVAL);
  EXPECT_EQ(manager.add("b", 3).error().code, EINVAL);
  EXPECT_EQ(manager.node(manager.add("b").value())->port.number, 1);
}

TEST(SubnetManager, NameDeterminesTheGuids) {
  SubnetManager one{SubnetConfig{}};
  SubnetManager other{SubnetConfig{}};
  (void)other.add("first");
  const auto a = one.node(one.add("a").value())->port;
  const auto same = other.node(other.add("a").value())->port;
  EXPECT_EQ(a.node_guid, topology::derived_guid("a", 0));
  EXPECT_EQ(a.node_guid, same.node_guid);
  EXPECT_EQ(a.port_guid, same.port_guid);
  EXPECT_NE(a.node_guid, a.port_guid);
  EXPECT_EQ(a.node_guid.value() >> 56 & 3, 2U) << "locally administered, individual";

  SubnetConfig seeded;
  seeded.seed = 7;
  SubnetManager third{seeded};
  EXPECT_NE(third.node(third.add("a").value())->port.node_guid, a.node_guid);
}

TEST(SubnetManager, HcaFailsAndRecovers) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a").value();
  const auto before = manager.node(a)->port;
  (void)manager.take_changed();
  ASSERT_TRUE(manager.set_failed(a, true));
  EXPECT_TRUE(manager.node(a)->port.failed);
  EXPECT_EQ(manager.node(a)->port.generation, before.generation);
  EXPECT_EQ(manager.node(a)->port.state, PortState::down);
  EXPECT_EQ(manager.end_ports().size(), 2U) << "the SM and the switch";
  EXPECT_TRUE(manager.take_changed()[a]);
  EXPECT_EQ(manager.set_port_state(a, PortState::active).error().code, ENODEV);
  ASSERT_TRUE(manager.set_failed(a, true));
  EXPECT_FALSE(manager.take_changed()[a]) << "it has failed already";
  ASSERT_TRUE(manager.set_failed(a, false));
  auto after = manager.node(a)->port;
  EXPECT_FALSE(after.failed);
  EXPECT_NE(after.generation, before.generation) << "attached processes have lost the HCA";
  EXPECT_NE(after.losses, before.losses) << "it was down meanwhile";
  after.generation = before.generation;
  after.losses = before.losses;
  EXPECT_EQ(after, before);
  EXPECT_EQ(manager.set_failed(99, true).error().code, ENOENT);
}

TEST(SubnetManager, KnownNameReturnsTheSameNode) {
  SubnetManager manager{SubnetConfig{}};
  EXPECT_EQ(manager.add("a").value(), manager.add("a").value());
}

TEST(SubnetManager, InvalidNamesAreRefused) {
  SubnetManager manager{SubnetConfig{}};
  EXPECT_FALSE(manager.add(""));
  EXPECT_FALSE(manager.add("a b"));
  EXPECT_FALSE(manager.add(std::string(kMaxNodeName + 1, 'x')));
  EXPECT_FALSE(manager.add(kSwitchName));
}

TEST(SubnetManager, NodesAreBounded) {
  SubnetManager manager{SubnetConfig{}};
  std::set<Guid> guids;
  for (std::size_t i = 1; i < kMaxNodes; ++i) {
    const auto node = manager.add("n" + std::to_string(i));
    ASSERT_TRUE(node) << i;
    guids.insert(manager.node(*node)->port.port_guid);
  }
  EXPECT_EQ(guids.size(), kMaxNodes - 1);
  EXPECT_EQ(manager.switches()[0].port_count, kMaxNumberedPort);
  EXPECT_FALSE(manager.add("one-more"));
  ASSERT_TRUE(manager.remove(500));
  EXPECT_TRUE(manager.add("one-more"));
}

TEST(SubnetManager, LidIsNotReusedSoon) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a").value();
  ASSERT_TRUE(manager.remove(a));
  EXPECT_FALSE(manager.node_at(Lid(2)));
  EXPECT_FALSE(manager.switches().exit(0, Lid(2)));
  EXPECT_EQ(manager.node(manager.add("b").value())->port.lid, Lid(3));
}

TEST(SubnetManager, ReportsChanges) {
  SubnetManager manager{SubnetConfig{}};
  (void)manager.take_changed();
  const auto a = manager.add("a").value();
  EXPECT_EQ(manager.take_changed(), NodeSet().set(a));
  EXPECT_TRUE(manager.take_changed().none());
  ASSERT_TRUE(manager.set_port_state(a, PortState::down));
  EXPECT_EQ(manager.take_changed(), NodeSet().set(a));
  ASSERT_TRUE(manager.set_port_state(a, PortState::down));
  EXPECT_TRUE(manager.take_changed().none());
  ASSERT_TRUE(manager.set_faults(a, {}));
  EXPECT_TRUE(manager.take_changed().none());
  ASSERT_TRUE(manager.fail_queue_pairs(a, Qpn(7)));
  EXPECT_FALSE(manager.node(a)->port.qp_errors.since({}).empty());
  EXPECT_EQ(manager.take_changed(), NodeSet().set(a));
  ASSERT_TRUE(manager.remove(a));
  EXPECT_EQ(manager.take_changed(), NodeSet().set(a));
}

TEST(SubnetManager, PortThatIsDownIsNotAnEndPort) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a").value();
  EXPECT_EQ(manager.end_ports().size(), 3U);
  ASSERT_TRUE(manager.set_port_state(a, PortState::down));
  EXPECT_EQ(manager.end_ports().size(), 2U);
  ASSERT_TRUE(manager.set_port_state(a, PortState::active));
  EXPECT_EQ(manager.end_ports().size(), 3U);
  ASSERT_TRUE(manager.remove(a));
  EXPECT_EQ(manager.end_ports().size(), 2U) << "nor is one that was removed";
}

TEST(SubnetManager, WithAnLmcAPortHasABlockOfLids) {
  SubnetConfig config;
  config.lmc = 2;
  config.mtu = 1;
  SubnetManager manager{config};
  EXPECT_EQ(manager.node(0)->port.lid, Lid(4));
  const auto a = manager.add("a").value();
  EXPECT_EQ(manager.node(a)->port.lid, Lid(8));
  EXPECT_EQ(manager.node(a)->port.sm_lid, Lid(4));
  for (const Lid lid : {Lid(8), Lid(9), Lid(10), Lid(11)}) EXPECT_EQ(manager.node_at(lid), a);
  EXPECT_FALSE(manager.node_at(Lid(12)));

  EXPECT_EQ(manager.set_lid(a, Lid(14)).error().message,
            "the base LID of a port is a multiple of 4 if the LMC is 2");
  EXPECT_FALSE(manager.set_lid(a, Lid(4))) << "used by the SM";
  EXPECT_FALSE(manager.set_lid(a, Lid(0xbffc))) << "its last LID is used by the switch";
  EXPECT_EQ(manager.node_at(Lid(9)), a) << "an error changes nothing";
  ASSERT_TRUE(manager.set_lid(a, Lid(16)));
  EXPECT_EQ(manager.node_at(Lid(19)), a);
  EXPECT_FALSE(manager.node_at(Lid(20)));
  EXPECT_FALSE(manager.node_at(Lid(9)));
  ASSERT_TRUE(manager.remove(a));
  EXPECT_FALSE(manager.node_at(Lid(19)));
}

TEST(SubnetManager, WithTheLargestLmcLidsRunOutBeforeNodes) {
  SubnetConfig config;
  config.lmc = ipoib::kMaxLmc;
  SubnetManager manager{config};
  std::size_t added = 0;
  ipoib::Result<NodeIndex> last = NodeIndex{0};
  while ((last = manager.add("n" + std::to_string(added)))) ++added;
  EXPECT_EQ(added, 0xbfffU / 128 - 2) << "blocks below the switch's LID, without that of the SM";
  EXPECT_EQ(last.error().code, ENOSPC);
  EXPECT_NE(last.error().message.find("softib set hca NAME absent"), std::string::npos);
  ASSERT_TRUE(manager.remove(manager.find("n" + std::to_string(added - 1)).value()));
  EXPECT_TRUE(manager.add("again")) << "by the last LID, which is free again";
}

TEST(SubnetManager, AdoptedPortKeepsItsLmc) {
  SubnetConfig config;
  config.lmc = 1;
  SubnetManager before{config};
  const auto a = before.add("a").value();
  SubnetManager manager{SubnetConfig{}};
  manager.adopt({.nodes = {{0, *before.node(0)}, {a, *before.node(a)}}});
  EXPECT_EQ(manager.node(a)->port.lmc, 1);
  EXPECT_EQ(manager.node_at(Lid(5)), a);
  EXPECT_EQ(manager.node(0)->port.lid, before.node(0)->port.lid) << "also that of the SM";
  EXPECT_EQ(manager.node(manager.add("b").value())->port.lid, Lid(6));
  EXPECT_EQ(manager.switches()[0].node.port.sm_lid, manager.node(0)->port.lid);
}

TEST(SubnetManager, LidsMustBeUnicastAndUnused) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a").value();
  EXPECT_FALSE(manager.set_lid(a, kSmLid));
  EXPECT_FALSE(manager.set_lid(a, Lid(0)));
  EXPECT_FALSE(manager.set_lid(a, Lid(0xc000)));
  EXPECT_FALSE(manager.set_lid(a, kSwitchLid));
  EXPECT_EQ(manager.set_lid(99, Lid(0x77)).error().code, ENOENT);
  ASSERT_TRUE(manager.set_lid(a, Lid(0x77)));
  EXPECT_FALSE(manager.node_at(Lid(2)));
  EXPECT_EQ(manager.node_at(Lid(0x77)), a);
}

TEST(SubnetManager, NewSmLidIsWrittenToAllPorts) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a").value();
  (void)manager.take_changed();
  ASSERT_TRUE(manager.set_lid(kSubnetNode, Lid(0x50)));
  EXPECT_EQ(manager.node(a)->port.sm_lid, Lid(0x50));
  EXPECT_EQ(manager.node(kSubnetNode)->port.sm_lid, Lid(0x50));
  EXPECT_EQ(manager.take_changed().count(), 2U);
  EXPECT_EQ(manager.node(manager.add("b").value())->port.sm_lid, Lid(0x50));
}

TEST(SubnetManager, PKeyTablesFollowThePartitions) {
  SubnetManager manager{with_partitions({"0x12=full:a", "0x12=limited:b", "0x13=limited"})};
  const auto& a = manager.node(manager.add("a").value())->port.pkeys;
  const auto& b = manager.node(manager.add("b").value())->port.pkeys;
  const auto& c = manager.node(manager.add("c").value())->port.pkeys;
  EXPECT_EQ(a[0], PKey(0xffff));
  EXPECT_EQ(a[1], PKey(0x8012));
  EXPECT_EQ(a[2], PKey(0x0013));
  EXPECT_EQ(b[1], PKey(0x0012));
  EXPECT_EQ(c[1], PKey(0x0013));
  EXPECT_FALSE(c[2].is_valid());
  // The SM is a full member of all partitions, so that it can reach all ports.
  EXPECT_EQ(manager.node(0)->port.pkeys[1], PKey(0x8012));
  EXPECT_EQ(manager.node(0)->port.pkeys[2], PKey(0x8013));
}

TEST(SubnetManager, PKeyKeepsItsIndex) {
  SubnetManager manager{with_partitions({"0x12=full", "0x13=full"})};
  const auto a = manager.add("a").value();
  const auto& keys = manager.node(a)->port.pkeys;
  ASSERT_TRUE(manager.set_membership(a, PKey(0x12), Membership::none));
  EXPECT_FALSE(keys[1].is_valid());
  EXPECT_EQ(keys[2], PKey(0x8013));
  ASSERT_TRUE(manager.set_membership(a, PKey(0x8013), Membership::limited));
  EXPECT_EQ(keys[2], PKey(0x0013));
  ASSERT_TRUE(manager.set_membership(a, PKey(0x44), Membership::full));
  EXPECT_EQ(keys[1], PKey(0x8044)) << "the first free entry";
  EXPECT_FALSE(manager.partitions().back().broadcast_group);
  EXPECT_TRUE(find_pkey(manager.node(0)->port, PKey(0x44)).is_valid());
  EXPECT_FALSE(manager.set_membership(a, PKey(0x8000), Membership::full));
}

TEST(SubnetManager, PartitionIsDeletedFromAllPorts) {
  SubnetManager manager{with_partitions({"0x12=full", "0x13=limited"})};
  const auto a = manager.add("a").value();
  const auto b = manager.add("b").value();
  (void)manager.take_changed();
  EXPECT_EQ(manager.delete_partition(PKey(0x0012)).has_value(), true);
  EXPECT_EQ(manager.partitions().size(), 2U);
  for (const NodeIndex node : {NodeIndex{0}, a, b}) {
    EXPECT_FALSE(manager.node(node)->port.pkeys[1].is_valid()) << node;
    EXPECT_TRUE(manager.node(node)->port.pkeys[2].is_valid()) << "other keys keep their index";
  }
  EXPECT_EQ(manager.take_changed(), NodeSet().set(0).set(a).set(b));
  EXPECT_EQ(manager.delete_partition(PKey(0x8012)).error().code, ENOENT);
  EXPECT_EQ(manager.delete_partition(PKey(0x7fff)).error().code, EINVAL);
  EXPECT_EQ(manager.delete_partition(PKey(0xffff)).error().code, EINVAL);
  EXPECT_EQ(manager.delete_partition(PKey(0)).error().code, ENOENT);
}

TEST(SubnetManager, PartitionIsNotCreatedForAPortThatIsNoMember) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a").value();
  EXPECT_EQ(manager.set_membership(a, PKey(0x56), Membership::none).error().code, ENOENT);
  EXPECT_EQ(manager.partitions().size(), 1U);
  for (std::uint16_t i = 1; i < kMaxPartitions; ++i) {
    ASSERT_TRUE(manager.set_membership(a, PKey(i), Membership::full)) << i;
  }
  EXPECT_EQ(manager.set_membership(a, PKey(0x56), Membership::full).error().message,
            "the subnet has " + std::to_string(kMaxPartitions) +
                " partitions, the maximum: delete one (softib set partition PKEY delete)");
  EXPECT_EQ(manager.set_membership(a, PKey(0x8000), Membership::full).error().message,
            "a P_Key is 0x0001 to 0x7fff, with or without the membership bit 0x8000");
  ASSERT_TRUE(manager.delete_partition(PKey(7)));
  EXPECT_TRUE(manager.set_membership(a, PKey(0x56), Membership::full)) << "there is room again";
}

TEST(SubnetManager, FullListOfNamesCanBeChanged) {
  SubnetConfig config = with_partitions({"0x12=limited"});
  auto& partition = config.partitions.back();
  partition.set("a", Membership::full);
  while (partition.members.size() < kMaxNamedMembers) {
    partition.set("x" + std::to_string(partition.members.size()), Membership::full);
  }
  SubnetManager manager{config};
  const auto a = manager.add("a").value();
  const auto b = manager.add("b").value();
  EXPECT_EQ(manager.set_membership(b, PKey(0x12), Membership::full).error().message,
            "the partition names " + std::to_string(kMaxNamedMembers) +
                " HCAs, the maximum: define it without names, for all HCAs");
  ASSERT_TRUE(manager.set_membership(a, PKey(0x12), Membership::limited));
  EXPECT_EQ(manager.node(a)->port.pkeys[1], PKey(0x12));
  ASSERT_TRUE(manager.set_membership(a, PKey(0x12), Membership::none));
  EXPECT_FALSE(manager.node(a)->port.pkeys[1].is_valid());
}

TEST(SubnetManager, PortMtuChanges) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a").value();
  (void)manager.take_changed();
  ASSERT_TRUE(manager.set_mtu(a, 3));
  EXPECT_EQ(manager.node(a)->port.mtu, 3);
  EXPECT_TRUE(manager.take_changed()[a]);
  for (const unsigned code : {0U, 6U, 255U}) {
    EXPECT_FALSE(manager.set_mtu(a, static_cast<std::uint8_t>(code)));
  }
  EXPECT_FALSE(manager.set_mtu(99, 3));
  ASSERT_TRUE(manager.set_mtu(manager.add("b").value(), 2));
  EXPECT_EQ(manager.port_mtus().size(), 2U);
  ASSERT_TRUE(manager.set_mtu(a, 4));
  EXPECT_EQ(manager.port_mtus().size(), 1U) << "not that of the subnet";
}

TEST(SubnetManager, PKeyMovesToAnotherIndex) {
  SubnetManager manager{with_partitions({"0x12=limited"})};
  const auto a = manager.add("a").value();
  ASSERT_EQ(manager.node(a)->port.pkeys[1], PKey(0x12));
  (void)manager.take_changed();
  ASSERT_TRUE(manager.move_pkey(a, PKey(0x8012), 7));
  EXPECT_EQ(manager.node(a)->port.pkeys[7], PKey(0x12));
  EXPECT_EQ(manager.node(a)->port.pkeys[1], PKey());
  ASSERT_TRUE(manager.move_pkey(a, PKey(0x12), 0));
  EXPECT_EQ(manager.node(a)->port.pkeys[7], PKey(0xffff)) << "the entries are exchanged";
  EXPECT_TRUE(manager.take_changed()[a]);
  ASSERT_TRUE(manager.move_pkey(a, PKey(0x12), 0));
  EXPECT_FALSE(manager.take_changed()[a]) << "it is there";
  ASSERT_TRUE(manager.set_membership(a, PKey(0x13), Membership::full));
  EXPECT_EQ(manager.node(a)->port.pkeys[0], PKey(0x12)) << "the index stays";
  EXPECT_FALSE(manager.move_pkey(a, PKey(0x14), 1));
  EXPECT_FALSE(manager.move_pkey(a, PKey(0), 1));
  EXPECT_EQ(manager.move_pkey(a, PKey(0x12), kPKeyTableSize).error().message,
            "the index is 0 to 31: a P_Key table has 32 entries");
  EXPECT_FALSE(manager.move_pkey(99, PKey(0x12), 1));
}

TEST(SubnetManager, OnlyHcasAreAskedToReregister) {
  SubnetManager manager{SubnetConfig{}};
  const auto a = manager.add("a").value();
  manager.request_reregistration();
  EXPECT_EQ(manager.node(a)->port.reregister_count, 1U);
  EXPECT_EQ(manager.node(0)->port.reregister_count, 0U);
}

TEST(SubnetManager, AdoptionKeepsNodes) {
  SubnetManager before{SubnetConfig{}};
  const auto a = before.add("a").value();
  const auto b = before.add("b").value();
  ASSERT_TRUE(before.set_lid(b, Lid(0x99)));
  ASSERT_TRUE(before.set_port_state(a, PortState::down));
  std::vector<SubnetSnapshot::NodeEntry> entries;
  for (NodeIndex i : {NodeIndex{0}, a, b}) entries.push_back({i, *before.node(i)});

  SubnetManager after{SubnetConfig{}};
  after.adopt({.nodes = entries});
  EXPECT_EQ(after.find("a"), a);
  EXPECT_EQ(after.node(a)->port.state, PortState::down);
  EXPECT_EQ(after.node_at(Lid(0x99)), b);
  EXPECT_EQ(after.node(b)->port.port_guid, before.node(b)->port.port_guid);
  EXPECT_EQ(after.node(after.add("c").value())->port.lid, Lid(0x9a));
}

TEST(SubnetManager, AddressesAreOfOneNodeAndBounded) {
  SubnetManager manager{SubnetConfig{}};
  const auto ip = [](const char* text) { return ipoib::parse_ip_address(text).value(); };
  const auto a = manager.add("a").value();
  const auto b = manager.add("b").value();
  EXPECT_EQ(manager.add_address(9, ip("10.1.0.1")).error().code, ENOENT);
  EXPECT_FALSE(manager.add_address(a, ip("224.0.0.1")));
  ASSERT_TRUE(manager.add_address(a, ip("10.1.0.1")));
  (void)manager.take_changed();
  EXPECT_TRUE(manager.add_address(a, ip("10.1.0.1"))) << "it has it already";
  EXPECT_TRUE(manager.take_changed().none());
  EXPECT_EQ(manager.add_address(b, ip("10.1.0.1")).error().code, EADDRINUSE);
  EXPECT_EQ(manager.delete_address(b, ip("10.1.0.1")).error().code, EADDRNOTAVAIL);
  for (std::uint32_t i = 0; i < kMaxNodeAddresses; ++i) {
    ASSERT_TRUE(manager.add_address(b, ipoib::Ipv4Address(0x0a02'0000 + i)));
  }
  EXPECT_EQ(
      manager.add_address(b, ip("10.1.0.2")).error().message,
      "the HCA 'b' has " + std::to_string(kMaxNodeAddresses) +
          " addresses, which is the limit: take one away (softib set address b ADDRESS delete)");
  ASSERT_TRUE(manager.delete_address(b, ip("10.2.0.0")));
  EXPECT_TRUE(manager.take_changed()[b]);
  EXPECT_TRUE(manager.add_address(a, ip("10.2.0.0")));
  ASSERT_TRUE(manager.remove(a));
  EXPECT_TRUE(manager.add_address(b, ip("10.1.0.1"))) << "that of a node that has gone";
}

TEST(SubnetManager, AdoptionKeepsAddressesOfOneNode) {
  const auto entry = [](NodeIndex index, const char* name) {
    SubnetSnapshot::NodeEntry made{index, Node{name, PortAttributes{}}};
    made.node.attachment = {0, static_cast<SwitchPort>(index + 1)};
    made.node.port.port_guid = Guid(index);
    made.node.port.lid = Lid(index);
    made.node.addresses = {ipoib::parse_ip_address("10.1.0.1").value()};
    return made;
  };
  SubnetManager manager{SubnetConfig{}};
  manager.adopt({.nodes = {entry(3, "a"), entry(4, "b")}});
  EXPECT_EQ(manager.node(3)->addresses.size(), 1U);
  EXPECT_TRUE(manager.node(4)->addresses.empty());
}

TEST(SubnetManager, AdoptionSkipsConflictingNodes) {
  SubnetManager manager{SubnetConfig{}};
  const auto entry = [](NodeIndex index, const std::string& name, Guid guid, Lid lid) {
    SubnetSnapshot::NodeEntry made{index, Node{name, PortAttributes{}}};
    made.node.attachment = {0, static_cast<SwitchPort>(index + 1)};
    made.node.port.port_guid = guid;
    made.node.port.lid = lid;
    return made;
  };
  auto same_port = entry(8, "g", Guid(10), Lid(10));
  same_port.node.attachment.port = 4;
  manager.adopt(
      {.nodes = {entry(3, "a", Guid(3), Lid(3)), entry(4, "a", Guid(4), Lid(4)), same_port,
                 entry(5, "c", Guid(3), Lid(5)), entry(6, "d", Guid(6), Lid(3)),
                 entry(7, "", Guid(7), Lid(7)), entry(8, "e", Guid(8), Lid(0xc001)),
                 entry(kMaxNodes, "f", Guid(9), Lid(9))}});
  EXPECT_EQ(manager.find("a"), NodeIndex{3});
  EXPECT_EQ(manager.end_ports().size(), 3U - 1U) << "a is down, so only the SM and the switch";
  const auto changed = manager.take_changed();
  for (NodeIndex skipped = 4; skipped < 9; ++skipped) {
    EXPECT_EQ(manager.node(skipped), nullptr) << skipped;
    EXPECT_TRUE(changed[skipped]) << "it is published that it has gone";
  }
  EXPECT_EQ(manager.node_at(kSmLid), kSubnetNode);
  SubnetConfig external;
  external.management = Management::external_sm;
  SubnetManager other{external};
  other.adopt({.nodes = {entry(kMaxNodes, "f", Guid(9), Lid(9))}});
  EXPECT_FALSE(other.find("f"));
}

TEST(PortRate, IsTheLowestIfTheLinkHasNone) {
  PortAttributes port;
  port.width = 2;
  port.speed = 1;
  EXPECT_EQ(port_rate(port), 3) << "10 Gb/s";
  port.speed = 0;
  EXPECT_EQ(port_rate(port), 2) << "2.5 Gb/s";
}

TEST(SharedPKey, RequiresOneFullMember) {
  SubnetManager manager{with_partitions({"0x7fff=limited", "0x12=full:a", "0x12=limited:b"})};
  const Node& a = *manager.node(manager.add("a").value());
  const Node& b = *manager.node(manager.add("b").value());
  const Node& c = *manager.node(manager.add("c").value());
  EXPECT_EQ(shared_pkey(a, b), PKey(0x8012));
  EXPECT_EQ(shared_pkey(b, a), PKey(0x0012));
  EXPECT_FALSE(shared_pkey(b, c).is_valid());
  EXPECT_EQ(shared_pkey(c, c), PKey(0x7fff)) << "loopback";
  EXPECT_FALSE(shared_pkey(a, b, PKey(0x7fff)).is_valid());
}

}  // namespace
}  // namespace softib::subnet
