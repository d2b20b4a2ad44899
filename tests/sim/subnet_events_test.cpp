// Reaction of a link to events of the subnet: ports, partitions, SM and SA.
#include "tests/sim/sim_fixture.hpp"

namespace ipoib::sim {
namespace {

class SubnetEvents : public Sim {
 protected:
  void set_port(const Host& host, softib::PortState state) {
    world.subnet().set_port_state(host.node(), state).value();
    world.publish();
  }
  void set_lid(const Host& host, std::uint16_t lid) {
    world.subnet().set_lid(host.node(), Lid(lid)).value();
    world.publish();
  }
  void set_membership(softib::NodeIndex node, softib::subnet::Membership as) {
    world.subnet().set_membership(node, config.pkey, as).value();
    world.publish();
  }
};

TEST_F(SubnetEvents, WaitsForThePort) {
  const auto node = world.subnet().add_hca("hca1").value();
  world.subnet().set_port_state(node, softib::PortState::init).value();
  Host& host = add(1);
  world.run_for(1min);
  EXPECT_EQ(host.link().state(), LinkState::port_down);
  EXPECT_EQ(world.mads_sent, 0U);
  set_port(host, softib::PortState::active);
  bring_up();
}

TEST_F(SubnetEvents, WaitsForThePartition) {
  config.pkey = PKey(0x8012);
  config.creation.allowed = true;
  Host& host = add(1);
  world.run_for(1min);
  EXPECT_EQ(host.link().state(), LinkState::no_pkey);
  set_membership(host.node(), softib::subnet::Membership::full);
  bring_up();
}

TEST_F(SubnetEvents, PartitionGoneAndBack) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  set_membership(b().node(), softib::subnet::Membership::none);
  world.run_for(1s);
  EXPECT_FALSE(b().is_up());
  EXPECT_EQ(b().link().state(), LinkState::no_pkey);
  set_membership(b().node(), softib::subnet::Membership::full);
  bring_up();
  EXPECT_TRUE(keeps_trying(a(), b(), 5s));
}

TEST_F(SubnetEvents, PortDownIsLinkDown) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  set_port(a(), softib::PortState::down);
  EXPECT_FALSE(a().is_up());
  EXPECT_TRUE(b().is_up());
  set_port(a(), softib::PortState::active);
  bring_up();
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_TRUE(reaches(b(), a()));
}

TEST_F(SubnetEvents, FlappingPortSettles) {
  two_hosts();
  for (int i = 0; i < 20; ++i) {
    set_port(a(), softib::PortState::down);
    world.run_for(Duration(std::chrono::microseconds(3 * i)));
    set_port(a(), softib::PortState::active);
    world.run_for(Duration(std::chrono::microseconds(7 * i)));
  }
  bring_up();
  EXPECT_TRUE(keeps_trying(a(), b(), 5s));
  EXPECT_EQ(world.subnet().groups().size(), 3U) << "broadcast, all-nodes of IPv4 and IPv6";
}

TEST_F(SubnetEvents, SmRestartKeepsCarrierAndTraffic) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  const unsigned changes = a().tun().carrier_changes;
  world.restart_sm();
  EXPECT_TRUE(reaches(a(), b()));
  world.run_for(10s);
  EXPECT_EQ(a().tun().carrier_changes, changes);
  for (const softib::subnet::GroupView& group : world.subnet().groups()) {
    EXPECT_EQ(group.members.size(), 2U) << "both have joined again";
  }
  // Longer than a restarted SM keeps the old forwarding entries.
  world.run_for(softib::subnet::kRejoinGrace * 2);
  Host& c = add(3);
  bring_up();
  EXPECT_TRUE(reaches(c, a()));
}

TEST_F(SubnetEvents, UnicastContinuesWithoutAnSa) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  world.faults.sa_drops_requests = true;
  world.restart_sm();
  for (int i = 0; i < 60; ++i) {
    EXPECT_TRUE(reaches(a(), b()));
    world.run_for(1s);
  }
  world.faults.sa_drops_requests = false;
  world.run_for(1min);
  EXPECT_TRUE(reaches(a(), b()));
  Host& c = add(3);
  bring_up();
  EXPECT_TRUE(reaches(c, a()));
}

TEST_F(SubnetEvents, NewLidOfPeerRefreshesItsPath) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_TRUE(reaches(b(), a()));
  set_lid(b(), 77);
  world.run_for(100ms);
  EXPECT_GT(a().count(Counter::path_lid_mismatches), 0U) << "the announcement shows the new LID";
  EXPECT_TRUE(keeps_trying(a(), b(), 1s));
  EXPECT_EQ(a().link().get(b().ip(), world.now())->path->dlid, Lid(77));
  EXPECT_TRUE(b().is_up());
}

TEST_F(SubnetEvents, NewLidOfSilentPeerIsFoundByProbes) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  world.tap = [this](ConstBytes packet) {
    return wire::UdPacket::parse(packet)->deth.source != b().link().hardware_address().qpn;
  };
  set_lid(b(), 77);
  world.run_for(10s);
  world.tap = nullptr;
  EXPECT_TRUE(keeps_trying(a(), b(), 60s));
}

TEST_F(SubnetEvents, ReportOfAPortAffectsOnlyItsPath) {
  add_many(3);
  bring_up();
  world.run_for(5s);
  Host& c = *hosts[2];
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_TRUE(reaches(a(), c));
  const auto reports = a().count(Counter::path_reports);
  const auto requests = a().count(Counter::path_requests);
  set_port(b(), softib::PortState::down);
  world.run_for(1s);
  EXPECT_EQ(a().count(Counter::path_reports), reports + 1) << "trap 65";
  set_port(b(), softib::PortState::active);
  bring_up();
  EXPECT_EQ(a().count(Counter::path_reports), reports + 2) << "trap 64";
  EXPECT_TRUE(reaches(a(), c));
  EXPECT_EQ(a().count(Counter::path_requests), requests);
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_EQ(a().count(Counter::path_requests), requests + 1);
}

TEST_F(SubnetEvents, PathIsRequestedWhenThePortReturns) {
  config.path.negative = {24h, 24h};
  two_hosts();
  set_port(b(), softib::PortState::down);
  world.run_for(1s);
  ASSERT_TRUE(a().link().set_permanent(b().ip(), b().hardware(), world.now()));
  EXPECT_FALSE(reaches(a(), b(), 10s));
  EXPECT_EQ(a().count(Counter::path_failures), 1U);
  set_port(b(), softib::PortState::active);
  bring_up();
  EXPECT_TRUE(reaches(a(), b()));
}

TEST_F(SubnetEvents, NeighbourOutOfServiceIsProbed) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_TRUE(reaches(b(), a()));
  EXPECT_EQ(a().state_of(b().ip()), "reachable");
  set_port(b(), softib::PortState::down);
  world.run_for(100ms);
  EXPECT_EQ(a().state_of(b().ip()), "reachable") << "not in use";
  EXPECT_FALSE(reaches(a(), b(), 100ms));
  EXPECT_EQ(a().state_of(b().ip()), "delay");
}

TEST_F(SubnetEvents, SeveralProcessesOnOneHcaShareItsPath) {
  add(1);
  add(2);
  add(beside(2, 3));
  bring_up();
  world.run_for(5s);
  const auto before = a().sa_counters().requests;
  EXPECT_TRUE(reaches(a(), *hosts[1]));
  EXPECT_TRUE(reaches(a(), *hosts[2]));
  EXPECT_EQ(a().sa_counters().requests, before + 1);
  EXPECT_TRUE(reaches(*hosts[1], *hosts[2])) << "through its own port";
}

TEST_F(SubnetEvents, LeaveByAnotherProcessIsDetected) {
  add(1);
  add(2);
  Host& beside_it = add(beside(2, 3));
  bring_up();
  const auto lost = [&] { return b().count(link::Counter::memberships_lost); };
  world.run_for(config.membership_check * 2);
  EXPECT_EQ(lost(), 0U);
  beside_it.shut_down();
  EXPECT_TRUE(keeps_trying(a(), b(), config.membership_check * 5 / 4 + 5s));
  world.run_for(config.membership_check * 2);
  EXPECT_GE(lost(), 1U);
  const auto before = lost();
  world.run_for(config.membership_check * 5);
  EXPECT_EQ(lost(), before) << "joined again once";
}

}  // namespace
}  // namespace ipoib::sim
