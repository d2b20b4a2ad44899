// Subnets of several switches with the subnet's own SM.
#include "softib/subnet/routing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sa_client.hpp"
#include "subnet_snapshot.hpp"
#include "two_level_tree.hpp"
#include "wire/node_record.hpp"
#include "wire/notice.hpp"
#include "wire/path_record.hpp"
#include "wire/sa_values.hpp"

namespace softib::subnet {
namespace {

constexpr SwitchIndex kLeaf1 = 0;
constexpr SwitchIndex kLeaf2 = 1;
constexpr SwitchIndex kSpine1 = 2;
constexpr SwitchIndex kSpine2 = 3;

SubnetConfig tree_config() {
  SubnetConfig config;
  config.topology = test::two_level_tree();
  return config;
}

class RoutingTest : public ::testing::Test {
 protected:
  [[nodiscard]] NodeIndex host(int number) const {
    return subnet.find("host-" + std::to_string(number)).value();
  }
  [[nodiscard]] Lid lid(NodeIndex node) const { return subnet.node(node)->port.lid; }
  /// The switches that a packet passes after the first one.
  [[nodiscard]] std::vector<SwitchIndex> way(NodeIndex from, NodeIndex to) const {
    std::vector<SwitchIndex> passed;
    const auto route = follow(subnet.switches(), subnet.node(from)->attachment.switch_index,
                              lid(to), false, [&](SwitchIndex at, SwitchPort exit) {
                                passed.push_back(subnet.switches().peer(at, exit).index);
                              });
    EXPECT_EQ(route.end, RouteEnd::node);
    EXPECT_EQ(route.index, to);
    EXPECT_EQ(route.cables, passed.size());
    EXPECT_EQ(route.checks, kNoChecks);
    return passed;
  }
  /// Joins these hosts to a group, and returns its MLID.
  Lid join(std::initializer_list<int> hosts,
           const Gid& mgid = *Gid::parse("ff12:601b:ffff::1:ff00:1"),
           std::uint64_t components = member::kCreate) {
    for (const int number : hosts) {
      SaClient client(subnet, "host-" + std::to_string(number));
      EXPECT_TRUE(client.send_request(ipoib::wire::method::kSet,
                                      ipoib::wire::attribute::kMcMemberRecord, components,
                                      member::record(mgid, client.gid())));
    }
    for (const auto& group : subnet.groups()) {
      if (group.mgid == mgid) return group.mlid;
    }
    return Lid();
  }

  Subnet subnet{tree_config()};
};

TEST_F(RoutingTest, HostsOfTheTopologyAreThereWithoutPrograms) {
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(subnet.node(host(i))->port.state, PortState::active);
    EXPECT_TRUE(ipoib::is_unicast(lid(host(i))));
    EXPECT_NE(subnet.node(host(i))->port.node_guid, Guid());
  }
  EXPECT_EQ(subnet.node(host(3))->attachment, (Attachment{kLeaf2, 1}));
  EXPECT_EQ(subnet.switches()[kLeaf2].ports[3].width, 2) << "of the cable to spine-1";
}

TEST_F(RoutingTest, EveryPairTalksByAShortestPath) {
  for (int from = 1; from <= 4; ++from) {
    for (int to = 1; to <= 4; ++to) {
      const bool is_same_leaf = (from - 1) / 2 == (to - 1) / 2;
      EXPECT_EQ(way(host(from), host(to)).size(), is_same_leaf ? 0U : 2U) << from << " " << to;
    }
  }
}

TEST_F(RoutingTest, PathsAreSpreadOverTheSpines) {
  EXPECT_NE(way(host(1), host(3))[0], way(host(1), host(4))[0]);
}

TEST_F(RoutingTest, AllReachTheSubnetManager) {
  for (int i = 1; i <= 4; ++i) {
    (void)way(host(i), kSubnetNode);
    (void)way(kSubnetNode, host(i));
  }
}

TEST_F(RoutingTest, SwitchesHaveLidsOfTheirOwn) {
  for (SwitchIndex i = 0; i < subnet.switches().size(); ++i) {
    const Lid own = subnet.switches()[i].node.port.lid;
    EXPECT_EQ(own.value(), kSwitchLid.value() - i);
    EXPECT_NE(subnet.switches()[i].node.port.node_guid, Guid());
    EXPECT_EQ(subnet.switches()[i].node.port.port_guid, subnet.switches()[i].node.port.node_guid);
    for (SwitchIndex from = 0; from < subnet.switches().size(); ++from) {
      const auto route = follow(subnet.switches(), from, own, false);
      EXPECT_EQ(route.end, RouteEnd::switch_);
      EXPECT_EQ(route.index, i);
    }
  }
}

TEST_F(RoutingTest, RoutesAroundACableThatFails) {
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 3}, {}, CableState::down));
  for (const int to : {3, 4}) {
    EXPECT_EQ(way(host(1), host(to))[0], kSpine2);
    EXPECT_EQ(way(host(to), host(1))[0], kSpine2);
  }
  ASSERT_TRUE(subnet.set_cable({"leaf-1"}, CableEnd{"spine-1"}, CableState::up));
  EXPECT_NE(way(host(1), host(3))[0], way(host(1), host(4))[0]);
}

TEST_F(RoutingTest, ThereIsNoRouteToAPartThatIsCutOff) {
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 3}, CableEnd{"spine-1", 1}, CableState::down));
  ASSERT_TRUE(subnet.set_cable({"spine-2"}, CableEnd{"leaf-1"}, CableState::down));
  EXPECT_FALSE(subnet.route(host(1), lid(host(3))));
  EXPECT_FALSE(subnet.route(host(3), lid(host(1))));
  EXPECT_EQ(subnet.route(host(1), lid(host(2))), host(2));
  EXPECT_FALSE(subnet.route(host(1), Lid(0xc000))) << "no unicast LID";
}

TEST_F(RoutingTest, AMulticastPacketArrivesOnceAtEachMember) {
  const Lid mlid = join({1, 2, 4});
  const auto members = NodeSet().set(host(1)).set(host(2)).set(host(4));
  for (int from = 1; from <= 4; ++from) {
    std::map<std::pair<SwitchIndex, SwitchPort>, int> cables;
    bool has_looped = true;
    const auto at = subnet.node(host(from))->attachment.switch_index;
    EXPECT_EQ(subnet.receivers(host(from), mlid), members) << from;
    EXPECT_EQ(spread(subnet.switches(), at, group_index(mlid), has_looped,
                     [&](SwitchIndex s, SwitchPort exit) {
                       ++cables[{s, exit}];
                     }),
              members);
    EXPECT_FALSE(has_looped);
    EXPECT_EQ(cables.size(), 2U) << "up and down again";
    for (const auto& [cable, packets] : cables) EXPECT_EQ(packets, 1);
  }
}

TEST_F(RoutingTest, MulticastStaysAtTheLeafOfItsMembers) {
  const Lid mlid = join({1, 2});
  EXPECT_EQ(subnet.receivers(host(1), mlid), NodeSet().set(host(1)).set(host(2)));
  EXPECT_TRUE(subnet.receivers(host(1), Lid(3)).none()) << "no group's LID";
  bool has_looped = false;
  int cables = 0;
  (void)spread(subnet.switches(), kLeaf1, group_index(mlid), has_looped,
               [&](SwitchIndex, SwitchPort) { ++cables; });
  EXPECT_EQ(cables, 0);
}

/// A spine with three leaves, of which two have a cable to each other.
TEST(MulticastTree, ItsRootIsTheSwitchThatIsNearToAll) {
  SubnetConfig config;
  auto& topology = config.topology.emplace();
  for (const auto* name : {"leaf-1", "leaf-2", "leaf-3", "spine"}) {
    topology.switches.push_back({name, "", Guid(), 4});
  }
  const auto cable = [&](bool to_switch, std::uint16_t from, std::uint8_t port, std::uint16_t to,
                         std::uint8_t to_port) {
    topology.cables.push_back({{true, from, port}, {to_switch, to, to_port}});
  };
  for (std::uint16_t i = 0; i < 3; ++i) {
    topology.hcas.push_back({"host-" + std::to_string(i + 1), "", Guid(), 1, {}});
    cable(false, i, 1, i, 1);
    cable(true, i, 2, 3, static_cast<std::uint8_t>(i + 1));
  }
  cable(true, 0, 3, 1, 3);
  Subnet subnet(config);
  const Gid mgid = *Gid::parse("ff12:601b:ffff::1:ff00:1");
  for (const auto* name : {"host-2", "host-3"}) {
    SaClient client(subnet, name);
    ASSERT_EQ(client
                  .send_request(ipoib::wire::method::kSet, ipoib::wire::attribute::kMcMemberRecord,
                                member::kCreate, member::record(mgid, client.gid()))
                  ->status(),
              ipoib::wire::SaStatus::ok);
  }
  const Lid mlid = subnet.groups().back().mlid;
  const auto from = subnet.find("host-2").value();
  EXPECT_EQ(subnet.receivers(from, mlid), NodeSet().set(from).set(subnet.find("host-3").value()));
  bool has_looped = false;
  int cables = 0;
  (void)spread(subnet.switches(), 1, group_index(mlid), has_looped,
               [&](SwitchIndex, SwitchPort) { ++cables; });
  EXPECT_EQ(cables, 2) << "over the spine, not over leaf-1";
}

TEST_F(RoutingTest, MulticastFollowsTheCables) {
  const Lid mlid = join({1, 3});
  const Lid first = join({1, 3}, broadcast(), member::kJoin);
  for (const SwitchPort port : {SwitchPort{3}, SwitchPort{4}}) {
    ASSERT_TRUE(subnet.set_cable({"leaf-1", port}, {}, CableState::down));
    EXPECT_TRUE(subnet.receivers(host(1), mlid)[host(3)]) << "over the other spine";
    EXPECT_TRUE(subnet.receivers(host(1), first)[host(3)]);
    ASSERT_TRUE(subnet.set_cable({"leaf-1", port}, {}, CableState::up));
  }
  for (const auto state : {SwitchState::absent, SwitchState::present}) {
    ASSERT_TRUE(subnet.set_switch("spine-2", state));
    EXPECT_EQ(subnet.receivers(host(1), mlid), NodeSet().set(host(1)).set(host(3)));
  }
}

TEST_F(RoutingTest, AnHcaThatTheTopologyDoesNotNameGetsAFreePort) {
  EXPECT_EQ(subnet.node(kSubnetNode)->attachment, (Attachment{kSpine1, 3})) << "the SM";
  const auto added = subnet.add_hca("more").value();
  EXPECT_EQ(subnet.node(added)->attachment, (Attachment{kSpine1, 4}));
  EXPECT_EQ(subnet.route(host(1), lid(added)), added);
}

TEST_F(RoutingTest, TheSubnetManagerGetsAPortOfItsOwnIfNoneIsFree) {
  SubnetConfig config = tree_config();
  for (const SwitchIndex spine : {kSpine1, kSpine2}) config.topology->switches[spine].ports = 2;
  Subnet full(config);
  EXPECT_EQ(full.node(kSubnetNode)->attachment, (Attachment{kSpine1, 3}));
  EXPECT_EQ(full.switches()[kSpine1].port_count, 3);
  const auto from = full.find("host-1").value();
  EXPECT_EQ(full.route(from, full.node(kSubnetNode)->port.lid), kSubnetNode);
}

TEST_F(RoutingTest, NoMoreHcasThanFreePorts) {
  // The spines have two free ports each, of which the SM has taken one.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(subnet.add_hca("more-" + std::to_string(i)));
  EXPECT_EQ(subnet.add_hca("too-many").error().code, ENOSPC);
  ASSERT_TRUE(subnet.remove_hca(host(2)));
  EXPECT_EQ(subnet.add_hca("too-many").error().code, ENOSPC) << "that port is host-2's";
  ASSERT_TRUE(subnet.add_hca("host-2"));
  EXPECT_EQ(subnet.node(host(2))->attachment, (Attachment{kLeaf1, 2}));
}

TEST_F(RoutingTest, ANewProcessKeepsLidsPortsAndCables) {
  ASSERT_TRUE(subnet.set_lid(host(2), Lid(77)));
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 3}, {}, CableState::down));
  Subnet after(tree_config());
  after.adopt(snapshot_of(subnet), kStart);
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(after.find("host-" + std::to_string(i)), host(i));
    EXPECT_EQ(after.node(host(i))->port.lid, lid(host(i)));
    EXPECT_EQ(after.node(host(i))->attachment, subnet.node(host(i))->attachment);
  }
  EXPECT_EQ(after.switches().peer(kSpine1, 1).state, PortState::down);
  for (int from = 1; from <= 4; ++from) {
    for (int to = 1; to <= 4; ++to) EXPECT_EQ(after.route(host(from), lid(host(to))), host(to));
  }
}

TEST_F(RoutingTest, CablesAreNamedByTheirEnds) {
  EXPECT_EQ(subnet.set_cable({"leaf-1"}, {}, CableState::down).error().code, EINVAL);
  EXPECT_EQ(subnet.set_cable({"leaf-1", 9}, {}, CableState::down).error().code, ENOENT);
  EXPECT_EQ(subnet.set_cable({"leaf-1"}, CableEnd{"leaf-2"}, CableState::down).error().code,
            ENOENT);
  EXPECT_EQ(subnet.set_cable({"nobody"}, {}, CableState::down).error().code, ENOENT);
  ASSERT_TRUE(subnet.set_cable({"host-1"}, {}, CableState::down));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::down);
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 1}, CableEnd{"host-1", 1}, CableState::up));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::active);
  const auto losses = subnet.node(host(1))->port.losses;
  ASSERT_TRUE(subnet.set_cable({"host-1"}, CableEnd{"leaf-1"}, CableState::flap));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::active);
  EXPECT_EQ(subnet.node(host(1))->port.losses, losses + 1);
  ASSERT_TRUE(subnet.remove_hca(host(1)));
  EXPECT_THAT(subnet.set_cable({"leaf-1"}, {}, CableState::down).error().message,
              testing::EndsWith("name the port, as in leaf-1[2]"));
}

TEST_F(RoutingTest, PathsHaveTheRateOfTheirSlowestCable) {
  using ipoib::wire::PathRecord;
  SaClient client(subnet, "host-1");
  const auto path = [&](const Node& from, const Node& to) {
    PathRecord wanted;
    wanted.sgid = from.port.gid();
    wanted.dgid = to.port.gid();
    const auto reply =
        client.send_request(ipoib::wire::method::kGet, ipoib::wire::attribute::kPathRecord,
                            PathRecord::kSgid | PathRecord::kDgid, wanted);
    return PathRecord::parse(reply.value().data).value();
  };
  const auto path_to = [&](int number) { return path(client.node(), *subnet.node(host(number))); };
  const auto rate_to = [&](int number) { return ipoib::wire::rate_mbps(path_to(number).rate); };
  for (const int number : {1, 3}) ASSERT_TRUE(subnet.set_mtu(host(number), 5));
  EXPECT_EQ(path_to(3).mtu, 4) << "that of the cables between the switches";
  EXPECT_EQ(rate_to(3), 40'000U);
  const auto losses = subnet.node(host(3))->port.losses;
  ASSERT_TRUE(subnet.set_cable({"host-3"}, {}, CableSettings{.width = 1, .speed = 1}));
  EXPECT_EQ(rate_to(3), 2'500U);
  EXPECT_EQ(path_to(3).mtu, 4);
  EXPECT_EQ(subnet.node(host(3))->port.losses, losses + 1) << "the link was trained again";
  EXPECT_EQ(subnet.node(host(3))->port.state, PortState::active);
  for (const auto* spine : {"spine-1", "spine-2"}) {
    ASSERT_TRUE(
        subnet.set_cable({spine}, CableEnd{"leaf-2"}, CableSettings{.width = 1, .speed = 2}));
  }
  EXPECT_EQ(rate_to(4), 5'000U);
  const Node& leaf = subnet.switches()[kLeaf2].node;
  EXPECT_EQ(path(client.node(), leaf).rate, path_to(4).rate) << "to a switch";
  EXPECT_EQ(path(leaf, client.node()).rate, path_to(4).rate) << "from a switch";
  EXPECT_EQ(rate_to(2), 40'000U);
  const ExternalPort& changed = subnet.switches()[kLeaf2].ports[3];
  EXPECT_EQ(changed.speed, 2);
  EXPECT_EQ(changed.links_lost, 1U);
  ASSERT_TRUE(subnet.set_cable({"leaf-2", 3}, {}, CableSettings{.width = 1, .speed = 2}));
  EXPECT_EQ(changed.links_lost, 1U) << "nothing has changed";
  ASSERT_TRUE(subnet.set_cable({"leaf-2", 4}, {}, CableState::down));
  (void)subnet.take_changes();
  ASSERT_TRUE(subnet.set_cable({"leaf-2", 4}, {}, CableSettings{.speed = 4}));
  EXPECT_EQ(subnet.take_changes().switches.size(), 2U) << "both ends are published";
  EXPECT_EQ(subnet.switches().peer(kLeaf2, 4).state, PortState::down) << "it is not plugged in";
}

TEST(GroupLids, EndWithTheLastGroup) {
  EXPECT_TRUE(is_group(group_lid(0)));
  EXPECT_TRUE(is_group(group_lid(kMaxGroups - 1)));
  EXPECT_FALSE(is_group(group_lid(kMaxGroups)));
  EXPECT_FALSE(is_group(Lid(1)));
}

TEST_F(RoutingTest, FaultsOfACableAreThoseOfBothEnds) {
  (void)subnet.take_changes();
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 3}, {}, CableSettings{.loss = 100}));
  ASSERT_TRUE(subnet.set_cable({"spine-1", 1}, {}, CableSettings{.delay = 7}));
  EXPECT_EQ(subnet.switches()[kLeaf1].ports[3].faults, (CableFaults{100, 7}));
  EXPECT_EQ(subnet.switches()[kSpine1].ports[1].faults, (CableFaults{100, 7}));
  EXPECT_EQ(subnet.switches().peer(kLeaf1, 3).checks, kCableFault);
  EXPECT_EQ(subnet.switches().peer(kSpine1, 1).checks, kCableFault);
  EXPECT_EQ(subnet.switches()[kLeaf1].ports[3].links_lost, 0U);
  ASSERT_TRUE(subnet.set_cable({"host-2"}, {}, CableSettings{.loss = 1}));
  EXPECT_EQ(subnet.node(host(2))->checks, kCableFault);
  EXPECT_EQ(subnet.switches().checks(), kCableFault);
  CheckSet on_ways = kNoChecks;
  for (const int to : {3, 4}) {
    on_ways |= follow(subnet.switches(), kLeaf1, lid(host(to)), false).checks;
  }
  EXPECT_EQ(on_ways, kCableFault);
  const auto changes = subnet.take_changes();
  EXPECT_TRUE(changes.nodes[host(2)]);
  EXPECT_EQ(changes.switches.size(), 2U);

  ASSERT_TRUE(subnet.remove_hca(host(2)));
  const auto again = subnet.add_hca("host-2").value();
  EXPECT_EQ(subnet.node(again)->checks, kCableFault);
  const auto& at = subnet.node(again)->attachment;
  EXPECT_EQ(subnet.switches().peer(at.switch_index, at.port).checks, kCableFault);
  ASSERT_TRUE(subnet.set_cable({"host-3"}, {}, CableState::down));
  (void)subnet.take_changes();
  ASSERT_TRUE(subnet.set_cable({"host-3"}, {}, CableSettings{.width = 8}));
  EXPECT_TRUE(subnet.take_changes().nodes[host(3)]);
  ASSERT_TRUE(subnet.set_switch("spine-2", SwitchState::absent));
  ASSERT_TRUE(subnet.set_cable({"leaf-2", 3}, {}, CableSettings{.width = 8}));
  Subnet after(tree_config());
  after.adopt(snapshot_of(subnet), kStart);
  EXPECT_EQ(after.switches()[kSpine1].ports[1].faults, (CableFaults{100, 7}));
  EXPECT_EQ(after.switches().peer(kLeaf1, 3).checks, kCableFault);
  EXPECT_EQ(after.node(host(2))->checks, kCableFault);
  EXPECT_EQ(after.switches()[kLeaf2].ports[3].width, 8);
  EXPECT_EQ(after.switches()[kLeaf1].ports[4].links_lost, 1U);
  ASSERT_TRUE(after.set_switch("leaf-2", SwitchState::reset));
  EXPECT_EQ(after.node(host(3))->port.state, PortState::down) << "its cable is still pulled";
  ASSERT_TRUE(after.set_switch("spine-2", SwitchState::present));
  EXPECT_EQ(after.switches().peer(kLeaf1, 4).state, PortState::active) << "this one was not";

  ASSERT_TRUE(subnet.set_cable({"leaf-1", 3}, {}, CableSettings{.loss = 0, .delay = 0}));
  ASSERT_TRUE(subnet.set_cable({"host-2"}, {}, CableSettings{.loss = 0}));
  EXPECT_EQ(subnet.switches().checks(), kNoChecks);
  EXPECT_EQ(subnet.node(host(2))->checks, kNoChecks);
  EXPECT_EQ(subnet.set_cable({"leaf-1"}, {}, CableSettings{}).error().code, EINVAL);
}

TEST_F(RoutingTest, AHostWhoseSwitchIsAbsentStaysDown) {
  ASSERT_TRUE(subnet.set_switch("leaf-1", SwitchState::absent));
  const auto refused = subnet.set_port_state(host(1), PortState::active);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EHOSTDOWN);
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::down);
  ASSERT_TRUE(subnet.set_failed(host(1), true));
  ASSERT_TRUE(subnet.set_failed(host(1), false));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::down);
  ASSERT_TRUE(subnet.remove_hca(host(2)));
  EXPECT_EQ(subnet.node(subnet.add_hca("host-2").value())->port.state, PortState::down);
  ASSERT_TRUE(subnet.set_switch("leaf-1", SwitchState::present));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::active);
  EXPECT_EQ(subnet.node(host(2))->port.state, PortState::active);
  ASSERT_TRUE(subnet.set_port_state(host(1), PortState::down));
  ASSERT_TRUE(subnet.set_switch("leaf-1", SwitchState::absent));
  EXPECT_FALSE(subnet.set_port_state(host(1), PortState::active));
  ASSERT_TRUE(subnet.set_switch("leaf-1", SwitchState::present));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::down) << "as it was set before";
  ASSERT_TRUE(subnet.set_failed(host(1), true));
  EXPECT_FALSE(subnet.set_port_state(host(1), PortState::active));
  ASSERT_TRUE(subnet.set_failed(host(1), false));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::down);
}

TEST_F(RoutingTest, APortThatIsSetDownStaysDown) {
  ASSERT_TRUE(subnet.set_port_state(host(1), PortState::down));
  ASSERT_TRUE(subnet.set_switch("leaf-1", SwitchState::reset));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::down);
  ASSERT_TRUE(subnet.set_port_state(host(1), PortState::active));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::active);
}

TEST_F(RoutingTest, PortsThatCannotBeReachedAreOutOfService) {
  using ipoib::wire::Notice;
  SaClient client(subnet, "host-1");
  for (const auto trap : {std::uint16_t{64}, std::uint16_t{65}}) {
    ipoib::wire::InformInfo info;
    info.type = Notice::kSubnetManagement;
    info.trap_number = trap;
    info.producer_type = Notice::kClassManager;
    info.subscribe = true;
    ASSERT_TRUE(client.send_request(ipoib::wire::method::kSet, ipoib::wire::attribute::kInformInfo,
                                    0, info));
  }
  const auto reports = [&] {
    std::vector<std::pair<std::uint16_t, Gid>> found;
    subnet.on_time(kStart);
    for (const auto& packet : subnet.take_outgoing()) {
      const auto notice =
          Notice::parse(ConstBytes(packet.mad).subspan(ipoib::wire::kSaHeaderSize)).value();
      found.emplace_back(notice.trap_number, notice.gid);
    }
    return found;
  };
  const auto gid = [&](int number) { return subnet.node(host(number))->port.gid(); };
  const auto count_nodes = [&] {
    return client
        .send_request(ipoib::wire::method::kGetTable, ipoib::wire::attribute::kNodeRecord, 0,
                      ipoib::wire::NodeRecord{})
        ->records<ipoib::wire::NodeRecord>()
        .size();
  };
  const Lid mlid = join({1, 3});
  (void)reports();
  EXPECT_EQ(count_nodes(), 4U + 1U + 4U) << "hosts, SM, switches";
  ASSERT_TRUE(subnet.set_cable({"leaf-2", 3}, {}, CableState::down));
  EXPECT_TRUE(reports().empty()) << "there is another way";
  const auto asked = subnet.node(host(3))->port.reregister_count;
  ASSERT_TRUE(subnet.set_cable({"leaf-2", 4}, {}, CableState::down));
  EXPECT_EQ(reports(), (std::vector<std::pair<std::uint16_t, Gid>>{{65, gid(3)}, {65, gid(4)}}));
  EXPECT_EQ(subnet.node(host(3))->port.state, PortState::active) << "its link is up";
  EXPECT_FALSE(subnet.forwarding(mlid).receivers[host(3)]);
  EXPECT_EQ(count_nodes(), 2U + 1U + 3U);
  ASSERT_TRUE(subnet.set_port_state(host(4), PortState::down));
  EXPECT_TRUE(reports().empty()) << "it was out of service";
  ASSERT_TRUE(subnet.set_port_state(host(4), PortState::active));
  EXPECT_TRUE(reports().empty()) << "it still is";
  ASSERT_TRUE(subnet.set_cable({"leaf-2", 3}, {}, CableState::up));
  EXPECT_EQ(reports(), (std::vector<std::pair<std::uint16_t, Gid>>{{64, gid(3)}, {64, gid(4)}}));
  EXPECT_EQ(subnet.node(host(3))->port.reregister_count, asked + 1);
  EXPECT_EQ(subnet.node(host(1))->port.reregister_count, 0);
  EXPECT_EQ(count_nodes(), 9U);
}

TEST_F(RoutingTest, RoutesAroundASwitchThatIsAbsent) {
  const auto before = subnet.switches()[kSpine1].node.port;
  ASSERT_TRUE(subnet.set_switch("spine-1", SwitchState::absent));
  for (const int to : {3, 4}) EXPECT_EQ(way(host(1), host(to))[0], kSpine2);
  (void)subnet.take_changes();
  ASSERT_TRUE(subnet.set_cable({"leaf-1"}, CableEnd{"spine-1"}, CableState::up))
      << "it stays down until the switch is there";
  const auto changes = subnet.take_changes();
  ASSERT_EQ(changes.switches.size(), 1U);
  EXPECT_EQ(changes.switches[0].index, kLeaf1) << "where it is plugged in";
  EXPECT_EQ(subnet.switches().peer(kLeaf1, 3).state, PortState::down);
  ASSERT_TRUE(subnet.set_switch("spine-1", SwitchState::present));
  EXPECT_NE(way(host(1), host(3))[0], way(host(1), host(4))[0]);
  const auto& after = subnet.switches()[kSpine1].node.port;
  EXPECT_EQ(after.node_guid, before.node_guid);
  EXPECT_EQ(after.port_guid, before.port_guid);
  EXPECT_EQ(after.lid, before.lid);
  EXPECT_EQ(after.sm_lid, before.sm_lid);
  EXPECT_EQ(after.pkeys, before.pkeys);
  EXPECT_EQ(subnet.set_switch("spine-9", SwitchState::absent).error().code, ENOENT);
}

TEST_F(RoutingTest, HostsOfAnAbsentSwitchAreCutOff) {
  const Lid mlid = join({1, 3});
  ASSERT_TRUE(subnet.set_switch("leaf-1", SwitchState::reset));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::active);
  EXPECT_EQ(subnet.node(host(1))->port.losses, 1);
  EXPECT_FALSE(subnet.forwarding(mlid).receivers[host(1)]) << "its port was down";
  ASSERT_TRUE(subnet.set_switch("leaf-1", SwitchState::absent));
  EXPECT_EQ(subnet.node(host(1))->port.state, PortState::down);
  EXPECT_FALSE(subnet.route(host(3), lid(host(1))).has_value() &&
               subnet.node(host(1))->port.state == PortState::active);
}

/// Each switch forwards by what it has, even in a circle.
TEST_F(RoutingTest, LoopsInTheTablesEnd) {
  SubnetConfig config = tree_config();
  Switches switches(config);
  for (const auto& [at, exit] : {std::pair<SwitchIndex, SwitchPort>{kLeaf1, 3}, {kSpine1, 1}}) {
    switches.set_cable(at, exit, PortState::active);
    switches[at].routes.set(Lid(9), exit);
    switches[at].groups.set(0, PortSet().set(exit - std::size_t{1}));
  }
  EXPECT_EQ(follow(switches, kLeaf1, Lid(9), false).end, RouteEnd::loop);
  switches[kLeaf1].groups.set(0, PortSet().set(2).set(3));
  switches[kLeaf2].groups.set(0, PortSet().set(2).set(3));
  switches[kSpine1].groups.set(0, PortSet().set(0).set(1));
  switches[kSpine2].groups.set(0, PortSet().set(0).set(1));
  for (const SwitchIndex leaf : {kLeaf1, kLeaf2}) {
    for (const SwitchPort port : {SwitchPort{3}, SwitchPort{4}}) {
      switches.set_cable(leaf, port, PortState::active);
    }
  }
  bool has_looped = false;
  unsigned copies = 0;
  (void)spread(switches, kLeaf1, 0, has_looped, [&](SwitchIndex, SwitchPort) { ++copies; });
  EXPECT_TRUE(has_looped);
  EXPECT_LT(copies, kMaxSwitchCopies);
}

TEST_F(RoutingTest, OnlyCablesThatAreActiveLeadAnywhere) {
  SubnetConfig config = tree_config();
  Switches switches(config);
  Routing routing(switches);
  routing.cables_changed();
  EXPECT_FALSE(routing.reaches(kLeaf1, kSpine1)) << "an SM has not made it active yet";
  switches.set_cable(kLeaf1, 3, PortState::active);
  routing.cables_changed();
  EXPECT_TRUE(routing.reaches(kLeaf1, kSpine1));
  EXPECT_FALSE(routing.reaches(kLeaf1, kSpine2));
}

TEST_F(RoutingTest, ChangesAreOfTheSwitchesThatTheyConcern) {
  SubnetConfig config = tree_config();
  Switches switches(config);
  const auto changed = [&] {
    std::vector<SwitchIndex> found;
    for (const auto& change : switches.take_changes()) found.push_back(change.index);
    return found;
  };
  (void)changed();
  EXPECT_THAT(changed(), ::testing::IsEmpty());
  switches.set_cable(kLeaf1, 3, PortState::active);
  EXPECT_THAT(changed(), ::testing::ElementsAre(kLeaf1, kSpine1)) << "both ends";
  const Attachment at{kLeaf2, 1};
  switches.disconnect(at);
  EXPECT_THAT(changed(), ::testing::ElementsAre(kLeaf2));
  switches.connect(at, 7, {7, 1});
  EXPECT_THAT(changed(), ::testing::ElementsAre(kLeaf2));
}

/// A line of switches, each of which forwards to the next one, and the last to a node.
struct Line {
  SwitchIndex length;

  [[nodiscard]] static std::optional<SwitchPort> exit(SwitchIndex /*at*/, Lid /*dlid*/) {
    return SwitchPort{1};
  }
  [[nodiscard]] Peer peer(SwitchIndex at, SwitchPort /*exit*/) const {
    const bool is_last = at + 1 == length;
    return {is_last ? Peer::Kind::node : Peer::Kind::switch_port,
            static_cast<std::uint16_t>(at + 1), 1, PortState::active};
  }
};

TEST(WayOfAPacket, PassesAsManySwitchesAsTheLimitSays) {
  const auto longest = follow(Line{kMaxSwitchHops}, 0, Lid(9), false);
  EXPECT_EQ(longest.end, RouteEnd::node);
  EXPECT_EQ(longest.cables, kMaxSwitchHops - 1);
  const auto longer = follow(Line{kMaxSwitchHops + 1}, 0, Lid(9), false);
  EXPECT_EQ(longer.end, RouteEnd::loop);
  EXPECT_EQ(longer.cables, kMaxSwitchHops);
}

TEST_F(RoutingTest, ManagementPacketsPassACableThatIsNotActive) {
  SubnetConfig config = tree_config();
  Switches switches(config);
  switches[kLeaf1].routes.set(Lid(9), SwitchPort{3});
  switches[kSpine1].routes.set(Lid(9), SwitchPort{0});
  EXPECT_EQ(follow(switches, kLeaf1, Lid(9), true).end, RouteEnd::switch_);
  EXPECT_EQ(follow(switches, kLeaf1, Lid(9), false).end, RouteEnd::link_down);
  switches.set_cable(kLeaf1, 3, PortState::down);
  EXPECT_EQ(follow(switches, kLeaf1, Lid(9), true).end, RouteEnd::link_down);
}

}  // namespace
}  // namespace softib::subnet
