// Rows of docs/states.md, "Neighbour": Failed, Permanent.
#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link {
namespace {

TEST_F(NeighbourStates, Failed_Packet) {
  be_failed();
  send();
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(count(Counter::drop_neighbour_failed), 1U);
  EXPECT_TRUE(out.sends.empty()) << "no new question";
}

TEST_F(NeighbourStates, Failed_Confirmed) {
  be_failed();
  confirm(kHere);
  EXPECT_EQ(state(), "resolving");
}

TEST_F(NeighbourStates, Failed_Unconfirmed) {
  be_failed();
  prepare_path(kHere.gid);
  tell(kHere);
  EXPECT_EQ(state(), "stale");
}

TEST_F(NeighbourStates, Failed_Reply) {
  spoil_path(kHere.gid);
  tell(kHere);
  ASSERT_EQ(state(), "failed");
  owe_reply();
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
  EXPECT_TRUE(out.sends.empty());
}

TEST_F(NeighbourStates, Failed_Deadline) {
  be_failed();
  EXPECT_EQ(neighbours.next_deadline(), now + config.ageing.negative);
  reach_deadline();
  EXPECT_EQ(state(), "gone");
  send();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(sent_arp().size(), 1U);
}

TEST_F(NeighbourStates, Failed_LinkDown) {
  be_failed();
  neighbours.link_down(now);
  EXPECT_EQ(state(), "gone");
}

TEST_F(NeighbourStates, Failed_SetPermanent) {
  be_failed();
  set_permanent(kHere);
  EXPECT_EQ(state(), "permanent");
}

TEST_F(NeighbourStates, Failed_Removed) {
  be_failed();
  remove();
  EXPECT_EQ(state(), "gone");
}

TEST_F(NeighbourStates, Permanent_Packet_PathReady) {
  be_permanent();
  send();
  EXPECT_EQ(state(), "permanent");
  expect_sent_to(kHere, 1);
}

TEST_F(NeighbourStates, Permanent_Packet_PathPending) {
  set_permanent(kHere);
  send();
  send();
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(entry()->parked(), 2U);
  EXPECT_EQ(asked().size(), 1U);
  EXPECT_TRUE(out.sends.empty());
}

TEST_F(NeighbourStates, Permanent_Packet_PathFailed) {
  set_permanent(kHere);
  spoil_path(kHere.gid);
  send();
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
  EXPECT_TRUE(asked().empty());
}

TEST_F(NeighbourStates, Permanent_Confirmed) {
  be_permanent();
  confirm(kThere);
  EXPECT_EQ(state(), "permanent");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Permanent_Unconfirmed) {
  be_permanent();
  tell(kThere);
  EXPECT_EQ(state(), "permanent");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Permanent_Contradicted) {
  be_permanent();
  contradict();
  EXPECT_EQ(state(), "permanent");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Permanent_Reply) {
  be_permanent();
  owe_reply();
  expect_reply_sent_to(kHere);
  remove();
  forget();
  set_permanent(kThere);
  owe_reply();
  EXPECT_EQ(entry()->parked(), 1U);
  grant(asked().at(0));
  expect_reply_sent_to(kThere);
}

TEST_F(NeighbourStates, Permanent_PathReady) {
  be_permanent_waiting();
  grant(question);
  EXPECT_EQ(state(), "permanent");
  expect_sent_to(kHere, 1);
  EXPECT_EQ(parking.used, 0U);
}

TEST_F(NeighbourStates, Permanent_PathFailed) {
  be_permanent_waiting();
  refuse(question);
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
  EXPECT_EQ(parking.used, 0U);
}

TEST_F(NeighbourStates, Permanent_LinkDown) {
  be_permanent_waiting();
  neighbours.link_down(now);
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(count(Counter::drop_link_down), 1U);
  grant(question);
  EXPECT_TRUE(out.sends.empty());
  send();
  expect_sent_to(kHere, 1);
}

TEST_F(NeighbourStates, Permanent_SetPermanent) {
  be_permanent_waiting();
  set_permanent(kThere);
  EXPECT_EQ(state(), "permanent");
  expect_route(kThere);
  grant(question);
  EXPECT_TRUE(out.sends.empty()) << "that was the path to where it has been";
  grant(asked().at(0));
  expect_sent_to(kThere, 1);
}

TEST_F(NeighbourStates, Permanent_Removed) {
  be_permanent_waiting();
  remove();
  expect_gone_dropping(Counter::drop_neighbour_removed, 1);
  grant(question);
}

}  // namespace
}  // namespace ipoib::link
