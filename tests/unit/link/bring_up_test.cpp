// Rows of docs/states.md, "Bring-up".
#include <gmock/gmock.h>

#include <array>

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

using ::testing::UnorderedElementsAre;

class BringUpStates : public LinkFixture {
 protected:
  /// The broadcast group and the all-nodes groups of IPv4 and IPv6.
  static constexpr std::size_t kGroups = 3;

  void change_port() { link->on_port(port, now); }
  static Gid all_nodes() { return wire::multicast_gid(kAllNodes, kDefaultPKey); }
  static Gid all_nodes_of_ipv6() { return wire::multicast_gid(kAllNodesOfIpv6, kDefaultPKey); }
  /// Brings the link up, with a reachable neighbour.
  void be_up_with_peer() {
    bring_up();
    resolve_peer();
    tick_to(now + 3s);
    forget();
  }
  void join_broadcast() {
    const auto joins = take<JoinRequest>();
    link->on_response({joins.at(0).id, group_record(broadcast())}, now);
  }
  void grant_join(const JoinRequest& join) {
    link->on_response({join.id, group_record(join.record.mgid, 0xc001)}, now);
  }
  void expect_down() {
    EXPECT_EQ(emitted<SetCarrier>(), (std::vector{SetCarrier{false}}));
    EXPECT_THAT(emitted<DetachGroup>(),
                UnorderedElementsAre(DetachGroup{broadcast(), Lid(0xc000)},
                                     DetachGroup{all_nodes(), Lid(0xc001)},
                                     DetachGroup{all_nodes_of_ipv6(), Lid(0xc001)}));
    EXPECT_EQ(state_of(kPeer), "stale");
    EXPECT_TRUE(link->get(kPeer, now)->path->needs_refresh);
  }
  /// Of all groups, with the addresses of the port at that time.
  void expect_left(const Gid& port_gid) {
    std::vector<Gid> left;
    for (const LeaveRequest& leave : emitted<LeaveRequest>()) {
      EXPECT_EQ(leave.record.port_gid, port_gid);
      left.push_back(leave.record.mgid);
    }
    EXPECT_THAT(left, UnorderedElementsAre(broadcast(), all_nodes(), all_nodes_of_ipv6()));
  }
  void expect_up_again() {
    grant_joins();
    EXPECT_EQ(link->state(), LinkState::up);
    EXPECT_EQ(emitted<SetCarrier>().back(), SetCarrier{true});
    EXPECT_EQ(emitted<ConfigureQueuePair>().size(), 1U);
    EXPECT_EQ(emitted<AttachGroup>().size(), kGroups);
  }
  void expect_confirmation() {
    EXPECT_EQ(link->state(), LinkState::up);
    EXPECT_TRUE(emitted<SetCarrier>().empty());
    EXPECT_EQ(emitted<JoinRequest>().size(), kGroups);
    EXPECT_EQ(state_of(kPeer), "reachable");
    EXPECT_TRUE(link->get(kPeer, now)->path->needs_refresh);
  }
};

TEST(LinkState, HasAStableName) {
  constexpr std::array kNames{
      "port_down",         "port_polling", "port_init", "port_armed", "no_gid",
      "no_subnet_manager", "no_pkey",      "joining",   "up",         "stopped"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    EXPECT_EQ(name(static_cast<LinkState>(i)), kNames[i]);
  }
}

TEST_F(BringUpStates, BringUp_PortActive) {
  make();
  EXPECT_EQ(link->state(), LinkState::port_down);
  const PortStatus complete = port;
  port = {};
  change_port();
  EXPECT_EQ(link->state(), LinkState::port_down);
  for (const auto& [inactive, state, text] :
       {std::tuple{Inactive::down, LinkState::port_down, "disabled"},
        {Inactive::polling, LinkState::port_polling, "cable"},
        {Inactive::armed, LinkState::port_armed, "ARMED"},
        {Inactive::no_gid, LinkState::no_gid, "GID"},
        {Inactive::init, LinkState::port_init, "opensm"}}) {
    port.inactive = inactive;
    change_port();
    EXPECT_EQ(link->state(), state);
    EXPECT_NE(link->waiting_for().find(text), std::string::npos) << link->waiting_for();
  }
  port.active = true;
  port.lid = complete.lid;
  port.gid = complete.gid;
  change_port();
  EXPECT_EQ(link->state(), LinkState::no_subnet_manager);
  port.sm_known = true;
  change_port();
  EXPECT_EQ(link->state(), LinkState::no_pkey);
  EXPECT_TRUE(link->waiting_for().starts_with("the P_Key to appear in the port's table ("));
  EXPECT_TRUE(link->events().empty());
  port.pkey_index = complete.pkey_index;
  change_port();
  EXPECT_EQ(link->state(), LinkState::joining);
  ASSERT_EQ(emitted<JoinRequest>().size(), 1U);
  EXPECT_EQ(emitted<JoinRequest>()[0].record.mgid, broadcast());
  EXPECT_NE(link->waiting_for().find("broadcast group"), std::string::npos);
}

TEST_F(BringUpStates, BringUp_Joined) {
  make();
  change_port();
  join_broadcast();
  EXPECT_EQ(link->state(), LinkState::joining);
  EXPECT_NE(link->waiting_for().find("all-nodes"), std::string::npos) << link->waiting_for();
  EXPECT_TRUE(emitted<SetCarrier>().empty());
  const std::vector<Event> in_order{ConfigureQueuePair{.pkey_index = 2, .qkey = QKey(0x0b1b)},
                                    AttachGroup{broadcast(), Lid(0xc000)}, SetMtu{2044}};
  ASSERT_EQ(link->events().size(), 5U);
  EXPECT_TRUE(std::equal(in_order.begin(), in_order.end(), link->events().begin()));
  std::vector<Gid> joined;
  for (const JoinRequest& join : emitted<JoinRequest>()) joined.push_back(join.record.mgid);
  EXPECT_THAT(joined, UnorderedElementsAre(all_nodes(), all_nodes_of_ipv6()));
  EXPECT_EQ(link->mtu(), 2044U);
}

TEST_F(BringUpStates, BringUp_AllNodesJoined) {
  make();
  change_port();
  join_broadcast();
  const auto joins = take<JoinRequest>();
  ASSERT_EQ(joins.size(), 2U);
  forget();
  grant_join(joins[0]);
  EXPECT_EQ(link->state(), LinkState::joining);
  EXPECT_TRUE(emitted<SetCarrier>().empty());
  grant_join(joins[1]);
  EXPECT_EQ(link->state(), LinkState::up);
  EXPECT_EQ(link->waiting_for(), "nothing: the link is up");
  EXPECT_EQ(emitted<SetCarrier>(), (std::vector{SetCarrier{true}}));
  EXPECT_EQ(emitted<AttachGroup>().size(), 2U);
  link->tick(now);
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kOwnIp);
  EXPECT_EQ(sent_arp()[0].target_protocol, kOwnIp);
}

TEST_F(BringUpStates, BringUp_AllNodesRefused) {
  make();
  change_port();
  join_broadcast();
  for (const JoinRequest& join : take<JoinRequest>()) {
    EXPECT_TRUE(emitted<SetCarrier>().empty());
    link->on_response({join.id, SaFailure(wire::SaStatus::request_denied)}, now);
  }
  EXPECT_EQ(link->state(), LinkState::up);
  EXPECT_EQ(emitted<SetCarrier>(), (std::vector{SetCarrier{true}}));
}

TEST_F(BringUpStates, BringUp_NewParameters) {
  be_up_with_peer();
  link->on_client_reregister(now);
  const auto joins = take<JoinRequest>();
  ASSERT_EQ(joins.at(0).record.mgid, broadcast());
  wire::McMemberRecord other = group_record(broadcast());
  other.qkey = QKey(0x80001234);
  other.mtu = 5;
  link->on_response({joins[0].id, other}, now);
  EXPECT_EQ(link->state(), LinkState::up);
  EXPECT_TRUE(emitted<SetCarrier>().empty());
  EXPECT_EQ(emitted<ConfigureQueuePair>().at(0).qkey, other.qkey);
  EXPECT_EQ(emitted<SetMtu>(), (std::vector{SetMtu{4092}}));
  EXPECT_EQ(emitted<LeaveRequest>().size(), 2U) << "the all-nodes groups";
  EXPECT_EQ(emitted<DetachGroup>().size(), 2U);
}

TEST_F(BringUpStates, BringUp_SetupFailed) {
  be_up_with_peer();
  link->on_setup_failed(now);
  EXPECT_EQ(link->state(), LinkState::joining);
  expect_down();
  expect_left(port.gid);
  EXPECT_TRUE(emitted<JoinRequest>().empty()) << "not at once";
  forget();
  tick_to(now + config.join_backoff.first * 2);
  ASSERT_EQ(emitted<JoinRequest>().size(), 1U);
  EXPECT_EQ(emitted<JoinRequest>()[0].record.mgid, broadcast()) << "the one that exists";
  expect_up_again();
}

TEST_F(BringUpStates, BringUp_NotAttached) {
  be_up_with_peer();
  link->on_attach_failed(all_nodes(), now);
  EXPECT_EQ(link->state(), LinkState::up) << "up without that group";
  EXPECT_TRUE(emitted<SetCarrier>().empty());
  forget();
  link->on_attach_failed(broadcast(), now);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 2U) << "it has left one group before";
  EXPECT_EQ(link->state(), LinkState::joining);
  EXPECT_EQ(emitted<SetCarrier>(), (std::vector{SetCarrier{false}}));
}

TEST_F(BringUpStates, BringUp_BroadcastLost) {
  be_up_with_peer();
  link->on_client_reregister(now);
  wire::McMemberRecord other = group_record(broadcast());
  other.pkey = PKey(0x8012);
  for (const JoinRequest& join : take<JoinRequest>()) {
    if (join.record.mgid == broadcast()) link->on_response({join.id, other}, now);
  }
  EXPECT_EQ(link->state(), LinkState::joining);
  EXPECT_NE(link->waiting_for().find("no longer be used"), std::string::npos)
      << link->waiting_for();
  expect_down();
  forget();
  link->on_queue_pair(Qpn(0x12), now);
  EXPECT_TRUE(emitted<ConfigureQueuePair>().empty()) << "there is no Q_Key";
  tick_to(now + config.join_backoff.first * 2);
  expect_up_again();
}

TEST_F(BringUpStates, BringUp_PortDown) {
  be_up_with_peer();
  port.active = false;
  change_port();
  EXPECT_EQ(link->state(), LinkState::port_down);
  expect_down();
  EXPECT_TRUE(emitted<LeaveRequest>().empty()) << "nobody would receive it";
  send(kPeer);
  EXPECT_TRUE(link->sends().empty());
  EXPECT_EQ(count(Counter::drop_link_down), 1U);
  forget();
  port.active = true;
  change_port();
  expect_up_again();
  send(kPeer);
  EXPECT_FALSE(link->sends().empty()) << "known addresses are used at once";
}

TEST_F(BringUpStates, BringUp_PKeyGone) {
  be_up_with_peer();
  port.pkey_index.reset();
  change_port();
  EXPECT_EQ(link->state(), LinkState::no_pkey);
  expect_down();
  expect_left(port.gid);
}

TEST_F(BringUpStates, BringUp_PKeyMoved) {
  be_up_with_peer();
  port.pkey_index = 5;
  change_port();
  EXPECT_EQ(link->state(), LinkState::joining);
  expect_down();
  expect_left(port.gid);
  forget();
  link->on_client_reregister(now);
  expect_up_again();
  EXPECT_EQ(emitted<ConfigureQueuePair>()[0].pkey_index, 5);
}

TEST_F(BringUpStates, BringUp_GidChanged) {
  be_up_with_peer();
  const Gid before = std::exchange(port.gid, Gid(0xfec0'0000'0000'0000, Guid(1)));
  change_port();
  EXPECT_EQ(link->state(), LinkState::joining);
  expect_down();
  expect_left(before);
  EXPECT_EQ(link->hardware_address().gid, port.gid);
  grant_joins();
  forget();
  port.gid_index = 3;
  change_port();
  EXPECT_EQ(link->state(), LinkState::joining) << "address handles have the old index";
  grant_joins();
  forget();
  port.grh_required = true;
  change_port();
  EXPECT_EQ(link->state(), LinkState::joining) << "address handles have no global route";
}

TEST_F(BringUpStates, BringUp_LidChanged) {
  be_up_with_peer();
  port.lid = Lid(44);
  change_port();
  expect_confirmation();
  link->tick(now);
  EXPECT_EQ(sent_arp().size(), 1U) << "announced";
}

class BringUpTest : public BringUpStates {};

TEST_F(BringUpTest, NoGroupIsJoinedWhileTheLinkIsDown) {
  bring_up();
  port.active = false;
  change_port();
  forget();
  view.groups = {Ipv4Address(0xe9010203)};
  link->on_host_changed(view, now);
  EXPECT_TRUE(link->events().empty());
  tick_to(now + 1h);
  EXPECT_TRUE(link->events().empty());
  port.active = true;
  change_port();
  EXPECT_EQ(take<JoinRequest>().size(), 1U) << "only the broadcast group";
}

TEST_F(BringUpTest, ShutDownLeavesSendOnlyGroups) {
  bring_up();
  send(Ipv4Address(0xe9010203));
  grant_joins();
  send(Ipv4Address(0xe9010204));
  forget();
  link->shut_down(now);
  std::vector<std::uint8_t> states;
  for (const LeaveRequest& leave : emitted<LeaveRequest>()) {
    states.push_back(leave.record.join_state);
  }
  EXPECT_EQ(std::ranges::count(states, wire::McMemberRecord::kSendOnlyNonMember), 2);
  EXPECT_EQ(std::ranges::count(states, wire::McMemberRecord::kFullMember), kGroups);
}

TEST_F(BringUpTest, SendOnlyGroupsAreLeftIfTheLinkGoesDownOnAnActivePort) {
  bring_up();
  send(Ipv4Address(0xe9010203));
  grant_joins();
  forget();
  link->on_setup_failed(now);
  const auto left = emitted<LeaveRequest>();
  EXPECT_EQ(std::ranges::count_if(left,
                                  [](const LeaveRequest& leave) {
                                    return leave.record.join_state ==
                                           wire::McMemberRecord::kSendOnlyNonMember;
                                  }),
            1);
}

TEST_F(BringUpTest, SendOnlyJoinsAreRequestedAfterTheLinkWasDown) {
  config.limits.group_requests = 2;
  bring_up();
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < 4; ++i) send(Ipv4Address(0xe9010200 + i));
    EXPECT_EQ(take<JoinRequest>().size(), 2U) << "round " << round;
    port.active = false;
    change_port();
    port.active = true;
    change_port();
    grant_joins();
  }
}

TEST_F(BringUpTest, CarrierLossesCountOnlyLossesOfTheCarrier) {
  make();
  change_port();
  join_broadcast();  // not up yet
  port.active = false;
  change_port();
  EXPECT_EQ(count(Counter::carrier_losses), 0U);
  EXPECT_TRUE(emitted<SetCarrier>().empty());
  port.active = true;
  change_port();
  grant_joins();
  for (int i = 1; i <= 3; ++i) {
    link->on_setup_failed(now);
    EXPECT_EQ(count(Counter::carrier_losses), static_cast<std::uint64_t>(i));
    tick_to(now + 1min);
    grant_joins();
    ASSERT_EQ(link->state(), LinkState::up);
  }
}

TEST_F(BringUpTest, NewQueuePairIsConfiguredWhileTheAllNodesGroupsAreJoined) {
  make();
  change_port();
  join_broadcast();
  link->events().clear();
  link->on_queue_pair(Qpn(0x99), now);
  EXPECT_EQ(emitted<ConfigureQueuePair>().size(), 1U);
}

TEST_F(BringUpTest, BroadcastsOfOtherPortsPostponeTheCheck) {
  bring_up();
  const auto hear = [&](Lid from) {
    Incoming heard = datagram(encapsulated(ip_packet(Ipv4Address(0xffffffff))), broadcast());
    heard.source_lid = from;
    receive(std::move(heard));
  };
  for (int i = 0; i < 30; ++i) {
    tick_to(now + 1s);
    hear(Lid(7));
  }
  EXPECT_TRUE(emitted<LookupRequest>().empty());
  for (int i = 0; i < 7; ++i) {
    tick_to(now + 1s);
    hear(port.lid);  // of another program on this port
  }
  EXPECT_EQ(emitted<LookupRequest>().size(), 1U);
  EXPECT_EQ(emitted<LookupRequest>().at(0).record.mgid, broadcast());
}

TEST_F(BringUpTest, ChecksAfterSilenceAreRarerOnALargeSubnet) {
  port.lid = Lid(1000);
  bring_up();
  const TimePoint heard = now;
  receive(datagram(encapsulated(ip_packet(Ipv4Address(0xffffffff))), broadcast()));
  while (emitted<LookupRequest>().empty()) {
    now = link->next_deadline();
    link->tick(now);
  }
  EXPECT_GE(now, heard + 1000 * config.silence_check_per_lid * 3 / 4);
  EXPECT_LE(now, heard + 1000 * config.silence_check_per_lid * 5 / 4);
}

TEST_F(BringUpTest, LmcChangeChangesTheLids) {
  be_up_with_peer();
  port.lmc = 2;
  port.lid = Lid(8);
  change_port();
  expect_confirmation();
  grant_joins();
  forget();
  send(kPeer);
  const auto requests = take<PathRequest>();
  ASSERT_EQ(requests.size(), 1U) << "the path is refreshed";
  wire::PathRecord path = path_record(requests[0].record.dgid, 12, 4);
  path.slid = Lid(11);
  link->on_response({requests[0].id, path}, now);
  EXPECT_EQ(handles.made.back().source_path_bits, 3);
}

TEST_F(BringUpTest, BroadcastGroupThatHasMovedToAnotherScopeIsFound) {
  be_up_with_peer();
  const Gid moved = wire::broadcast_gid(kDefaultPKey, 5);
  link->on_client_reregister(now);
  for (auto joins = take<JoinRequest>(); !joins.empty(); joins = take<JoinRequest>()) {
    for (const JoinRequest& join : joins) {
      const SaFailure no_group(wire::SaStatus::insufficient_components);
      const bool is_gone = join.record.mgid == broadcast();
      if (is_gone) {
        EXPECT_EQ(link->state(), LinkState::up);
      }
      link->on_response(
          {join.id, is_gone ? wire::SaResult(no_group) : group_record(join.record.mgid)}, now);
    }
  }
  EXPECT_EQ(link->state(), LinkState::joining);
  forget();
  tick_to(now + config.join_backoff.first * 2);
  grant_joins();
  EXPECT_EQ(link->state(), LinkState::up);
  EXPECT_EQ(link->groups().front().mgid, moved);
  for (const GroupInfo& group : link->groups()) EXPECT_EQ(wire::scope_of(group.mgid), 5);
}

TEST_F(BringUpTest, GroupsAreCreatedWithTheParametersOfTheBroadcastGroup) {
  be_up_with_peer();
  wire::McMemberRecord other = group_record(broadcast(), 0xc000);
  other.qkey = QKey(0x80001234);
  other.mtu = 5;
  other.sl = ServiceLevel(3);
  const auto respond = [&](const std::vector<JoinRequest>& joins) {
    for (const JoinRequest& join : joins) {
      const SaFailure no_group(wire::SaStatus::insufficient_components);
      const bool exists = join.record.mgid == broadcast();
      link->on_response({join.id, exists ? wire::SaResult(other) : wire::SaResult(no_group)}, now);
    }
  };
  const auto expect_creations = [&](std::size_t count) {
    const auto joins = take<JoinRequest>();
    EXPECT_EQ(joins.size(), count);
    for (const JoinRequest& join : joins) {
      EXPECT_EQ(join.record.qkey, other.qkey);
      EXPECT_EQ(join.record.mtu, other.mtu);
      EXPECT_EQ(join.record.sl, other.sl);
    }
  };
  link->on_client_reregister(now);
  respond(take<JoinRequest>());
  respond(
      take<JoinRequest>());  // some may have requested before the response for the broadcast group
  tick_to(now + 2 * config.join_backoff.first);
  respond(take<JoinRequest>());
  expect_creations(kGroups - 1);
  view.groups = {Ipv4Address(0xe9010203)};
  link->on_host_changed(view, now);
  respond(take<JoinRequest>());
  expect_creations(1);
}

TEST_F(BringUpStates, BringUp_Reregister) {
  be_up_with_peer();
  link->on_client_reregister(now);
  expect_confirmation();
}

TEST_F(BringUpStates, BringUp_SmGone) {
  be_up_with_peer();
  port.sm_known = false;
  change_port();
  EXPECT_EQ(link->state(), LinkState::up);
  EXPECT_TRUE(link->events().empty());
  EXPECT_EQ(state_of(kPeer), "reachable");
}

TEST_F(BringUpStates, BringUp_NewQueuePair) {
  be_up_with_peer();
  link->on_queue_pair(Qpn(0x99), now);
  EXPECT_EQ(link->state(), LinkState::up);
  EXPECT_EQ(emitted<ConfigureQueuePair>().size(), 1U);
  EXPECT_TRUE(emitted<AttachGroup>().empty()) << "already attached";
  EXPECT_TRUE(emitted<SetCarrier>().empty());
  link->tick(now);
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].sender_hardware.qpn, Qpn(0x99));
}

TEST_F(BringUpStates, BringUp_ShutDown) {
  be_up_with_peer();
  send(Ipv4Address(0x0a2c0063));
  const std::size_t free_before = pool.available();
  link->shut_down(now);
  EXPECT_EQ(link->state(), LinkState::stopped);
  EXPECT_EQ(emitted<LeaveRequest>().size(), kGroups);
  EXPECT_EQ(emitted<DetachGroup>().size(), kGroups);
  EXPECT_EQ(emitted<SetCarrier>().back(), SetCarrier{false});
  EXPECT_GT(pool.available(), free_before);
  EXPECT_EQ(pool.available(), pool.capacity());
  EXPECT_EQ(link->next_deadline(), kNever);
  change_port();
  EXPECT_EQ(link->state(), LinkState::stopped);
}

}  // namespace
}  // namespace ipoib::link
