// Rows of docs/states.md, "Neighbour": Reachable, Stale, Delay, Probing.
#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link {
namespace {

TEST_F(NeighbourStates, Reachable_Packet) {
  be_reachable();
  send();
  EXPECT_EQ(state(), "reachable");
  expect_sent_to(kHere, 1);
  // The data path's own way in comes to the same.
  Frame frame = packet();
  EXPECT_TRUE(entry()->forward(frame, out.sends, now));
  EXPECT_FALSE(frame);
  expect_sent_to(kHere, 2);
}

TEST_F(NeighbourStates, Reachable_Packet_Gone) {
  be_reachable();
  now += 1s;
  paths.on_out_of_service(kThere.gid, now);
  paths.on_in_service(kHere.gid, now);
  send();
  EXPECT_EQ(state(), "reachable") << "not its port";
  paths.on_out_of_service(kHere.gid, now);
  Frame frame = packet();
  EXPECT_FALSE(entry()->forward(frame, out.sends, now));
  frame.release();
  send();
  EXPECT_EQ(state(), "delay") << "asked itself soon, unless it is heard of";
  expect_sent_to(kHere, 2);
  now += 1s;
  confirm(kHere);
  send();
  EXPECT_EQ(state(), "reachable") << "confirmed since";
}

TEST_F(NeighbourStates, Reachable_ConfirmedSame) {
  be_reachable();
  const TimePoint before = neighbours.next_deadline();
  now += config.ageing.reachable * 2 / 5;
  for (int i = 0; i < 20; ++i) confirm(kHere);
  EXPECT_EQ(state(), "reachable");
  EXPECT_NE(neighbours.next_deadline(), before);
  EXPECT_GE(neighbours.next_deadline(), now + config.ageing.reachable / 2);
  EXPECT_LE(neighbours.next_deadline(), now + config.ageing.reachable * 3 / 2);
}

TEST_F(NeighbourStates, Reachable_ConfirmedOther) {
  be_reachable();
  confirm(kThere);
  EXPECT_EQ(state(), "resolving");
  EXPECT_EQ(count(Counter::neighbour_address_changes), 1U);
  grant(asked().at(0));
  EXPECT_EQ(state(), "reachable");
  expect_route(kThere);
}

TEST_F(NeighbourStates, Reachable_Contradicted) {
  be_reachable();
  contradict();
  EXPECT_EQ(state(), "stale");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Reachable_UnconfirmedSame) {
  be_reachable();
  const TimePoint before = neighbours.next_deadline();
  now += 1s;
  tell(kHere);
  EXPECT_EQ(state(), "reachable");
  EXPECT_EQ(neighbours.next_deadline(), before);
}

TEST_F(NeighbourStates, Reachable_UnconfirmedOther) {
  be_reachable();
  tell(hardware(0x44, 2));
  EXPECT_EQ(state(), "stale") << "the same port, so the path is there";
  expect_route(hardware(0x44, 2));
  send();
  expect_sent_to(hardware(0x44, 2), 1);
}

TEST_F(NeighbourStates, Reachable_Reply) {
  be_reachable();
  owe_reply();
  EXPECT_EQ(state(), "reachable");
  expect_reply_sent_to(kHere);
}

TEST_F(NeighbourStates, Reachable_Deadline) {
  be_reachable();
  reach_deadline();
  EXPECT_EQ(state(), "stale");
  EXPECT_TRUE(out.sends.empty());
}

TEST_F(NeighbourStates, Reachable_LinkDown) {
  be_reachable();
  neighbours.link_down(now);
  EXPECT_EQ(state(), "stale");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Reachable_SetPermanent) {
  be_reachable();
  set_permanent(kThere);
  EXPECT_EQ(state(), "permanent");
  expect_route(kThere);
}

TEST_F(NeighbourStates, Reachable_Removed) {
  be_reachable();
  remove();
  EXPECT_EQ(state(), "gone");
}

TEST_F(NeighbourStates, Stale_Packet) {
  be_stale();
  send();
  EXPECT_EQ(state(), "delay");
  expect_sent_to(kHere, 1);
  EXPECT_EQ(neighbours.next_deadline(), now + config.ageing.delay);
}

TEST_F(NeighbourStates, Stale_ConfirmedSame) {
  be_stale();
  confirm(kHere);
  EXPECT_EQ(state(), "reachable");
}

TEST_F(NeighbourStates, Stale_ConfirmedOther) {
  be_stale();
  prepare_path(kThere.gid, 8);
  confirm(kThere);
  EXPECT_EQ(state(), "reachable");
  expect_route(kThere);
}

TEST_F(NeighbourStates, Stale_Contradicted) {
  be_stale();
  contradict();
  EXPECT_EQ(state(), "stale");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Stale_UnconfirmedSame) {
  be_stale();
  const TimePoint before = neighbours.next_deadline();
  now += 1s;
  tell(kHere);
  EXPECT_EQ(state(), "stale");
  EXPECT_EQ(neighbours.next_deadline(), before);
}

TEST_F(NeighbourStates, Stale_UnconfirmedOther) {
  be_stale();
  tell(kThere);
  EXPECT_EQ(state(), "resolving");
  expect_route(kThere);
}

TEST_F(NeighbourStates, Stale_Reply) {
  be_stale();
  owe_reply();
  EXPECT_EQ(state(), "stale");
  expect_reply_sent_to(kHere);
}

TEST_F(NeighbourStates, Stale_Deadline) {
  be_stale();
  EXPECT_EQ(neighbours.next_deadline(), now + config.ageing.idle);
  reach_deadline();
  EXPECT_EQ(state(), "gone");
}

TEST_F(NeighbourStates, Stale_LinkDown) {
  be_stale();
  neighbours.link_down(now);
  EXPECT_EQ(state(), "stale");
}

TEST_F(NeighbourStates, Stale_SetPermanent) {
  be_stale();
  set_permanent(kThere);
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(neighbours.next_deadline(), kNever);
}

TEST_F(NeighbourStates, Stale_Removed) {
  be_stale();
  remove();
  EXPECT_EQ(state(), "gone");
}

TEST_F(NeighbourStates, Delay_Packet) {
  be_delay();
  send();
  EXPECT_EQ(state(), "delay");
  expect_sent_to(kHere, 1);
}

TEST_F(NeighbourStates, Delay_ConfirmedSame) {
  be_delay();
  confirm(kHere);
  EXPECT_EQ(state(), "reachable");
}

TEST_F(NeighbourStates, Delay_ConfirmedOther) {
  be_delay();
  confirm(hardware(0x44, 2));
  EXPECT_EQ(state(), "reachable");
  expect_route(hardware(0x44, 2));
}

TEST_F(NeighbourStates, Delay_Contradicted) {
  be_delay();
  contradict();
  EXPECT_EQ(state(), "delay");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Delay_UnconfirmedSame) {
  be_delay();
  tell(kHere);
  EXPECT_EQ(state(), "delay");
}

TEST_F(NeighbourStates, Delay_UnconfirmedOther) {
  be_delay();
  tell(hardware(0x44, 2));
  EXPECT_EQ(state(), "stale");
  expect_route(hardware(0x44, 2));
}

TEST_F(NeighbourStates, Delay_Reply) {
  be_delay();
  owe_reply();
  EXPECT_EQ(state(), "delay");
  expect_reply_sent_to(kHere);
}

TEST_F(NeighbourStates, Delay_Deadline) {
  be_delay();
  reach_deadline();
  EXPECT_EQ(state(), "probing");
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].to, kHere.qpn);
  EXPECT_EQ(sent_arp()[0].message.operation, wire::ArpOperation::request);
  EXPECT_TRUE(asked().empty()) << "a neighbour that answers costs the SA nothing";
}

TEST_F(NeighbourStates, Delay_LinkDown) {
  be_delay();
  neighbours.link_down(now);
  EXPECT_EQ(state(), "stale");
}

TEST_F(NeighbourStates, Delay_SetPermanent) {
  be_delay();
  set_permanent(kHere);
  EXPECT_EQ(state(), "permanent");
}

TEST_F(NeighbourStates, Delay_Removed) {
  be_delay();
  remove();
  EXPECT_EQ(state(), "gone");
}

TEST_F(NeighbourStates, Probing_Packet) {
  be_probing();
  send();
  EXPECT_EQ(state(), "probing");
  expect_sent_to(kHere, 1);
}

TEST_F(NeighbourStates, Probing_ConfirmedSame) {
  be_probing();
  confirm(kHere);
  EXPECT_EQ(state(), "reachable");
}

TEST_F(NeighbourStates, Probing_ConfirmedOther) {
  be_probing();
  confirm(kThere);
  EXPECT_EQ(state(), "resolving");
  expect_route(kThere);
}

TEST_F(NeighbourStates, Probing_Contradicted) {
  be_probing();
  contradict();
  EXPECT_EQ(state(), "probing");
  expect_route(kHere);
}

TEST_F(NeighbourStates, Probing_UnconfirmedSame) {
  be_probing();
  tell(kHere);
  EXPECT_EQ(state(), "probing");
}

TEST_F(NeighbourStates, Probing_UnconfirmedOther) {
  be_probing();
  tell(hardware(0x44, 2));
  EXPECT_EQ(state(), "stale");
}

TEST_F(NeighbourStates, Probing_Reply) {
  be_probing();
  owe_reply();
  EXPECT_EQ(state(), "probing");
  expect_reply_sent_to(kHere);
}

TEST_F(NeighbourStates, Probing_Deadline_Unicast) {
  be_probing();
  for (unsigned probes = 1; probes < config.ageing.unicast_probes; ++probes) {
    forget();
    reach_deadline();
    EXPECT_EQ(state(), "probing");
    ASSERT_EQ(sent_arp().size(), 1U);
    EXPECT_EQ(sent_arp()[0].to, kHere.qpn);
    EXPECT_EQ(asked().size(), probes == 1 ? 1U : 0U) << "the path is in doubt, asked for once";
  }
}

TEST_F(NeighbourStates, Probing_Deadline_Broadcast) {
  be_probing();
  for (unsigned probes = 1; probes < config.ageing.unicast_probes; ++probes) reach_deadline();
  forget();
  reach_deadline();
  EXPECT_EQ(state(), "probing");
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].to, kMulticastQpn);
  // Without leave of the rate limit it is put off, not counted.
  for (int i = 0; i < 10; ++i) {
    now = neighbours.next_deadline();
    while (solicitor.admit_revalidation(now)) {
    }
    forget();
    tick();
    EXPECT_EQ(state(), "probing");
    EXPECT_TRUE(out.sends.empty());
  }
}

TEST_F(NeighbourStates, Probing_Deadline_Last) {
  be_probing();
  const unsigned all = config.ageing.unicast_probes + config.ageing.broadcast_probes;
  for (unsigned probes = 1; probes < all; ++probes) reach_deadline();
  EXPECT_EQ(state(), "probing");
  EXPECT_EQ(sent_arp().size(), all - 1);
  reach_deadline();
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(sent_arp().size(), all - 1);
}

TEST_F(NeighbourStates, Probing_LinkDown) {
  be_probing();
  neighbours.link_down(now);
  EXPECT_EQ(state(), "stale");
}

TEST_F(NeighbourStates, Probing_SetPermanent) {
  be_probing();
  set_permanent(kThere);
  EXPECT_EQ(state(), "permanent");
}

TEST_F(NeighbourStates, Probing_Removed) {
  be_probing();
  remove();
  EXPECT_EQ(state(), "gone");
}

}  // namespace
}  // namespace ipoib::link
