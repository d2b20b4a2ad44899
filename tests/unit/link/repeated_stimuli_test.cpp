// Stimuli that come twice in one state, and limits after the link was down.
#include "tests/unit/link/link_fixture.hpp"
#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link {
namespace {

/// What does not change the state does not move its deadline either, however often it comes.
class SameDeadline : public NeighbourStates {
 protected:
  void expect_unmoved(const std::function<void()>& stimulus) {
    const std::string before = state();
    const TimePoint deadline = neighbours.next_deadline();
    ASSERT_NE(deadline, kNever);
    for (int i = 0; i < 3; ++i) {
      now += 100ms;
      stimulus();
      EXPECT_EQ(state(), before);
      EXPECT_EQ(neighbours.next_deadline(), deadline);
    }
  }
  void sending() {
    expect_unmoved([this] { send(); });
  }
  void told() {
    expect_unmoved([this] { learn(kPeerHw); });
  }
  void replying() {
    expect_unmoved([this] { send_reply(); });
  }
};

TEST_F(SameDeadline, OfIncompleteWhenPacketsAreParked) {
  make_incomplete();
  sending();
}
TEST_F(SameDeadline, OfReachableWhenItIsUsedOrToldButNotConfirmed) {
  make_reachable();
  sending();
  told();
  replying();
}
TEST_F(SameDeadline, OfStaleWhenItIsToldOrRepliedTo) {
  make_stale();
  told();
  replying();
}
TEST_F(SameDeadline, OfDelayWhenItIsUsedAgain) {
  make_delay();
  sending();
  told();
  replying();
}
TEST_F(SameDeadline, OfProbingWhenItIsUsed) {
  make_probing();
  sending();
  told();
}
TEST_F(SameDeadline, OfFailedWhenPacketsAreRejected) {
  make_failed();
  sending();
}

using RepeatedStimuli = NeighbourStates;

TEST_F(RepeatedStimuli, ConfirmationIsKeptUntilThePathIsReady) {
  make_resolving();
  confirm(kPeerHw);
  learn(kPeerHw);
  contradict();
  grant(path_request);
  EXPECT_EQ(state(), "reachable") << "what follows a confirmation does not take it back";
}

TEST_F(RepeatedStimuli, ConfirmationOfAnotherAddressIsNotKept) {
  make_resolving();
  confirm(kPeerHw);
  learn(kNewPeerHw);
  grant(path_requests().at(0), 8);
  EXPECT_EQ(state(), "delay");
}

TEST_F(RepeatedStimuli, ProbesAreCountedWhilePacketsAreSent) {
  make_probing();
  for (int i = 1; i < config.ageing.unicast_probes + config.ageing.broadcast_probes; ++i) {
    send();
    reach_deadline();
    send();
    EXPECT_EQ(state(), "probing");
  }
  reach_deadline();
  EXPECT_EQ(state(), "failed");
}

TEST_F(RepeatedStimuli, ConfirmationStartsTheProbesOver) {
  make_probing();
  reach_deadline();
  confirm(kPeerHw);
  EXPECT_EQ(state(), "reachable");
  while (state() != "probing") {
    send();
    reach_deadline();
  }
  forget();
  for (int i = 1; i < config.ageing.unicast_probes; ++i) reach_deadline();
  EXPECT_EQ(sent_arp().size(), config.ageing.unicast_probes - 1U);
  for (const SentArp& sent : sent_arp()) EXPECT_EQ(sent.to, kPeerHw.qpn) << "by unicast again";
}

class AfterTheLinkWasDown : public LinkFixture {
 protected:
  void take_down_and_up() {
    port.active = false;
    link->on_port(port, now);
    port.active = true;
    link->on_port(port, now);
    grant_joins();
    ASSERT_EQ(link->state(), LinkState::up);
    forget();
  }
  void send_to(std::uint32_t first, std::uint32_t many) {
    for (std::uint32_t i = 0; i < many; ++i) send(Ipv4Address(0x0a2c0000 + first + i));
  }
};

TEST_F(AfterTheLinkWasDown, AllPlacesForUnresolvedNeighboursAreFree) {
  config.limits.unresolved = 3;
  bring_up();
  send_to(10, 3);
  take_down_and_up();
  send_to(20, 3);
  EXPECT_EQ(count(Counter::drop_unresolved_limit), 0U);
  send_to(30, 1);
  EXPECT_EQ(count(Counter::drop_unresolved_limit), 1U);
}

TEST_F(AfterTheLinkWasDown, AllPlacesForParkedFramesAreFree) {
  config.limits.parked = 3;
  bring_up();
  send_to(10, 3);
  take_down_and_up();
  EXPECT_EQ(count(Counter::drop_link_down), 3U);
  send_to(20, 3);
  EXPECT_EQ(count(Counter::drop_parked_total_limit), 0U);
  send_to(30, 1);
  EXPECT_EQ(count(Counter::drop_parked_total_limit), 1U);
}

TEST_F(AfterTheLinkWasDown, AnOldPathRequestFreesItsPlaceWhenItIsAnswered) {
  config.limits.path_requests = 1;
  bring_up();
  send(kPeer);
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  const auto old = take<PathRequest>();
  ASSERT_EQ(old.size(), 1U);
  take_down_and_up();
  wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
  reply.sender_hardware = hardware(0x33, 3);
  send(kPeer);
  receive_arp(reply);
  EXPECT_TRUE(emitted<PathRequest>().empty()) << "the only place is taken";
  link->on_response({old[0].id, path_record(old[0].record.dgid, 7)}, now);
  grant_paths(8);
  EXPECT_EQ(state_of(kPeer), "reachable");
}

TEST_F(AfterTheLinkWasDown, AllAddressesAreAnnouncedAgain) {
  bring_up();
  tick_to(now + 1min);
  forget();
  port.active = false;
  link->on_port(port, now);
  tick_to(now + 1min);
  EXPECT_TRUE(sent_arp().empty());
  port.active = true;
  link->on_port(port, now);
  grant_joins();
  tick_to(now + 1min);
  EXPECT_EQ(sent_arp().size(), config.ageing.announcements);
}

TEST_F(AfterTheLinkWasDown, RepetitionsOfRequestsAreLimited) {
  config.limits.solicitations = 16;  // four repetitions a second, one at once
  config.limits.parked_bytes_per_neighbour = kParkedPacket;
  bring_up();
  send_to(10, 6);
  tick_to(now + 1s);
  const auto first = count(Counter::arp_requests_broadcast);
  tick_to(now + 2s);
  const auto repeated = count(Counter::arp_requests_broadcast) - first;
  EXPECT_LE(repeated, 10U) << "of twelve";
  EXPECT_GT(count(Counter::solicitations_withheld), 0U);
}

}  // namespace
}  // namespace ipoib::link
