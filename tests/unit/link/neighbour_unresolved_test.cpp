// Rows of docs/states.md, "Neighbour": Adopt, New, Incomplete, Resolving.
#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link {
namespace {

TEST_F(NeighbourStates, Adopt_PathReady_Confirmed) {
  prepare_path(kHere.gid);
  be_incomplete();
  confirm(kHere);
  EXPECT_EQ(state(), "reachable");
  expect_sent_to(kHere, 1);
}

TEST_F(NeighbourStates, Adopt_PathReady_Unconfirmed) {
  prepare_path(kHere.gid);
  tell(kHere);
  EXPECT_EQ(state(), "stale");
  EXPECT_TRUE(out.sends.empty());
}

TEST_F(NeighbourStates, Adopt_PathReady_Unconfirmed_Parked) {
  prepare_path(kHere.gid);
  be_incomplete();
  tell(kHere);
  EXPECT_EQ(state(), "delay");
  expect_sent_to(kHere, 1);
}

TEST_F(NeighbourStates, Adopt_PathPending) {
  be_incomplete();
  confirm(kHere);
  EXPECT_EQ(state(), "resolving");
  EXPECT_EQ(entry()->parked(), 1U);
  ASSERT_EQ(asked().size(), 1U);
  EXPECT_EQ(asked()[0].record.dgid, kHere.gid);
  EXPECT_EQ(asked()[0].record.sgid, kOwn.gid);
}

TEST_F(NeighbourStates, Adopt_PathFailed) {
  spoil_path(kHere.gid);
  be_incomplete();
  confirm(kHere);
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
  EXPECT_TRUE(asked().empty());
}

TEST_F(NeighbourStates, New_Packet) {
  send();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(entry()->parked(), 1U);
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].to, kMulticastQpn);
  EXPECT_EQ(sent_arp()[0].message.target_protocol, kPeer);
  EXPECT_EQ(sent_arp()[0].message.sender_protocol, Ipv4Address(0x0a2c0001));
  EXPECT_EQ(sent_arp()[0].message.sender_hardware, kOwn);
}

TEST_F(NeighbourStates, New_Packet_Deferred) {
  while (solicitor.reserve_first(now) == now) {
  }
  forget();
  send();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(entry()->parked(), 1U);
  EXPECT_TRUE(out.sends.empty());
  EXPECT_GT(neighbours.next_deadline(), now);
}

TEST_F(NeighbourStates, New_Confirmed) {
  prepare_path(kHere.gid);
  confirm(kHere);
  EXPECT_EQ(state(), "reachable");
}

TEST_F(NeighbourStates, New_Unconfirmed) {
  tell(kHere);
  EXPECT_EQ(state(), "resolving");
}

TEST_F(NeighbourStates, New_SetPermanent) {
  set_permanent(kHere);
  EXPECT_EQ(state(), "permanent");
  EXPECT_TRUE(asked().empty()) << "a path is asked for when there is something to send";
}

TEST_F(NeighbourStates, Incomplete_Packet) {
  be_incomplete();
  for (std::size_t parked = 1; parked < parking.per_neighbour; ++parked) send();
  EXPECT_EQ(entry()->parked(), parking.per_neighbour);
  send();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(entry()->parked(), parking.per_neighbour);
  EXPECT_EQ(count(Counter::drop_parked_limit), 1U);
  EXPECT_TRUE(out.sends.empty());
}

TEST_F(NeighbourStates, Incomplete_Confirmed) {
  be_incomplete();
  confirm(kHere);
  grant(asked().at(0));
  EXPECT_EQ(state(), "reachable");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Incomplete_Unconfirmed) {
  be_incomplete();
  tell(kHere);
  EXPECT_EQ(state(), "resolving");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Incomplete_Deadline_Deferred) {
  while (solicitor.reserve_first(now) == now) {
  }
  be_incomplete();
  reach_deadline();
  EXPECT_EQ(state(), "incomplete");
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].to, kMulticastQpn);
}

TEST_F(NeighbourStates, Incomplete_Deadline) {
  be_incomplete();
  reach_deadline();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(sent_arp().size(), 1U);
  // Without leave of the rate limit it counts, but does not go.
  now = neighbours.next_deadline();
  while (solicitor.admit_repetition(now)) {
  }
  forget();
  tick();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_TRUE(out.sends.empty());
  reach_deadline();
  EXPECT_EQ(state(), "failed");
}

TEST_F(NeighbourStates, Incomplete_Deadline_Last) {
  be_incomplete();
  for (unsigned i = 1; i < config.ageing.broadcast_probes; ++i) reach_deadline();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(sent_arp().size(), config.ageing.broadcast_probes - 1U);
  reach_deadline();
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(count(Counter::drop_neighbour_failed), 1U);
  EXPECT_EQ(sent_arp().size(), config.ageing.broadcast_probes - 1U);
}

TEST_F(NeighbourStates, Incomplete_LinkDown) {
  be_incomplete();
  neighbours.link_down(now);
  expect_gone_dropping(Counter::drop_link_down, 1);
  EXPECT_EQ(neighbours.unresolved(), 0U);
}

TEST_F(NeighbourStates, Incomplete_SetPermanent) {
  prepare_path(kHere.gid);
  be_incomplete();
  set_permanent(kHere);
  EXPECT_EQ(state(), "permanent");
  expect_sent_to(kHere, 1);
}

TEST_F(NeighbourStates, Incomplete_Removed) {
  be_incomplete();
  remove();
  expect_gone_dropping(Counter::drop_neighbour_removed, 1);
}

TEST_F(NeighbourStates, Resolving_Packet) {
  be_resolving();
  send();
  EXPECT_EQ(state(), "resolving");
  EXPECT_EQ(entry()->parked(), 2U);
  EXPECT_TRUE(asked().empty()) << "one question for one path";
}

TEST_F(NeighbourStates, Resolving_ConfirmedSame) {
  be_resolving();
  confirm(kHere);
  EXPECT_EQ(state(), "resolving");
  grant(question);
  EXPECT_EQ(state(), "reachable");
}

TEST_F(NeighbourStates, Resolving_ConfirmedOther) {
  be_resolving();
  confirm(kThere);
  EXPECT_EQ(state(), "resolving");
  expect_route(kThere);
  ASSERT_EQ(asked().size(), 1U);
  grant(question);
  EXPECT_EQ(state(), "resolving") << "that was the path to where it has been";
  grant(asked()[0], 8);
  EXPECT_EQ(state(), "reachable");
  expect_sent_to(kThere, 1);
}

TEST_F(NeighbourStates, Resolving_UnconfirmedSame) {
  be_resolving();
  tell(kHere);
  EXPECT_EQ(state(), "resolving");
  EXPECT_TRUE(asked().empty());
  EXPECT_EQ(entry()->parked(), 1U);
}

TEST_F(NeighbourStates, Resolving_UnconfirmedOther) {
  be_resolving();
  tell(hardware(0x44, 2));
  EXPECT_EQ(state(), "resolving");
  EXPECT_TRUE(asked().empty()) << "another queue pair of the same port: the same path";
  expect_route(hardware(0x44, 2));
  EXPECT_EQ(entry()->parked(), 1U);
}

TEST_F(NeighbourStates, Resolving_Contradicted) {
  be_resolving();
  contradict();
  EXPECT_EQ(state(), "resolving");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Resolving_Reply) {
  be_resolving_unparked();
  owe_reply();
  EXPECT_EQ(entry()->parked(), 1U);
  grant(question);
  expect_reply_sent_to(kHere);
}

TEST_F(NeighbourStates, Resolving_PathReady_Confirmed) {
  be_resolving();
  confirm(kHere);
  grant(question);
  EXPECT_EQ(state(), "reachable");
  expect_sent_to(kHere, 1);
  EXPECT_EQ(parking.used, 0U);
}

TEST_F(NeighbourStates, Resolving_PathReady_Unconfirmed) {
  be_resolving_unparked();
  owe_reply();
  grant(question);
  EXPECT_EQ(state(), "stale") << "a reply is no use";
  expect_reply_sent_to(kHere);
}

TEST_F(NeighbourStates, Resolving_PathReady_Unconfirmed_Parked) {
  be_resolving();
  grant(question);
  EXPECT_EQ(state(), "delay");
  expect_sent_to(kHere, 1);
}

TEST_F(NeighbourStates, Resolving_PathFailed) {
  be_resolving();
  refuse(question);
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
  EXPECT_EQ(parking.used, 0U);
}

TEST_F(NeighbourStates, Resolving_LinkDown) {
  be_resolving();
  neighbours.link_down(now);
  expect_gone_dropping(Counter::drop_link_down, 1);
  grant(question);
}

TEST_F(NeighbourStates, Resolving_SetPermanent) {
  be_resolving();
  set_permanent(kThere);
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(entry()->parked(), 1U);
  ASSERT_EQ(asked().size(), 1U);
  grant(asked()[0]);
  expect_sent_to(kThere, 1);
}

TEST_F(NeighbourStates, Resolving_Removed) {
  be_resolving();
  remove();
  expect_gone_dropping(Counter::drop_neighbour_removed, 1);
  grant(question);
}

using NeighbourTest = NeighbourStates;

TEST_F(NeighbourTest, GoesWithAPathWhoseTurnHasNotCome) {
  config.limits.path_questions = 0;
  be_incomplete();
  tell(kHere);
  ASSERT_EQ(state(), "resolving");
  ASSERT_TRUE(std::holds_alternative<Path::Waiting>(paths.find(kHere.gid)->state()));
  remove();
  EXPECT_EQ(paths.find(kHere.gid), nullptr);
}

}  // namespace
}  // namespace ipoib::link
