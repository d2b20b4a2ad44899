// Rows of docs/states.md, "Neighbour", that need more than one stimulus or check; the others are in
// neighbour_rows_test.cpp.
#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link {
namespace {

TEST_F(NeighbourStates, Adopt_PathPending) {
  make_incomplete();
  confirm(kPeerHw);
  EXPECT_EQ(state(), "resolving");
  EXPECT_EQ(entry()->parked(), 1U);
  ASSERT_EQ(path_requests().size(), 1U);
  EXPECT_EQ(path_requests()[0].record.dgid, kPeerHw.gid);
  EXPECT_EQ(path_requests()[0].record.sgid, kOwn.gid);
}

TEST_F(NeighbourStates, Adopt_PathFailed) {
  fail_path(kPeerHw.gid);
  make_incomplete();
  confirm(kPeerHw);
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
  EXPECT_TRUE(path_requests().empty());
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
  EXPECT_EQ(count(Counter::solicitations_withheld), 1U);
}

TEST_F(NeighbourStates, Incomplete_Packet) {
  make_incomplete();
  const std::size_t limit = parking.bytes_per_neighbour / kParkedPacket;
  for (std::size_t parked = 1; parked < limit; ++parked) send();
  EXPECT_EQ(entry()->parked(), limit);
  send();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(entry()->parked(), limit);
  EXPECT_EQ(count(Counter::drop_parked_limit), 1U);
  EXPECT_TRUE(out.sends.empty());
}

TEST_F(NeighbourStates, Incomplete_Confirmed) {
  make_incomplete();
  confirm(kPeerHw);
  grant(path_requests().at(0));
  EXPECT_EQ(state(), "reachable");
  expect_route(kPeerHw);
}

TEST_F(NeighbourStates, Incomplete_Deadline_Deferred) {
  while (solicitor.reserve_first(now) == now) {
  }
  make_incomplete();
  reach_deadline();
  EXPECT_EQ(state(), "incomplete");
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].to, kMulticastQpn);
}

TEST_F(NeighbourStates, Incomplete_Deadline) {
  make_incomplete();
  reach_deadline();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(sent_arp().size(), 1U);
  // A request that the rate limit rejects is counted, but not sent.
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
  make_incomplete();
  for (unsigned i = 1; i < config.ageing.broadcast_probes; ++i) reach_deadline();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(sent_arp().size(), config.ageing.broadcast_probes - 1U);
  reach_deadline();
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(count(Counter::drop_neighbour_failed), 1U);
  EXPECT_EQ(sent_arp().size(), config.ageing.broadcast_probes - 1U);
}

TEST_F(NeighbourStates, Resolving_ConfirmedSame) {
  make_resolving();
  confirm(kPeerHw);
  EXPECT_EQ(state(), "resolving");
  grant(path_request);
  EXPECT_EQ(state(), "reachable");
}

TEST_F(NeighbourStates, Resolving_ConfirmedOther) {
  make_resolving();
  confirm(kNewPeerHw);
  EXPECT_EQ(state(), "resolving");
  expect_route(kNewPeerHw);
  ASSERT_EQ(path_requests().size(), 1U);
  grant(path_request);
  EXPECT_EQ(state(), "resolving") << "that was the path to its old address";
  grant(path_requests()[0], 8);
  EXPECT_EQ(state(), "reachable");
  expect_sent_to(kNewPeerHw, 1);
}

TEST_F(NeighbourStates, Resolving_UnconfirmedOther) {
  make_resolving();
  learn(hardware(0x44, 2));
  EXPECT_EQ(state(), "resolving");
  EXPECT_TRUE(path_requests().empty()) << "another queue pair of the same port has the same path";
  expect_route(hardware(0x44, 2));
  EXPECT_EQ(entry()->parked(), 1U);
}

TEST_F(NeighbourStates, Resolving_Reply) {
  make_resolving_unparked();
  send_reply();
  EXPECT_EQ(entry()->parked(), 1U);
  grant(path_request);
  expect_reply_sent_to(kPeerHw);
}

TEST_F(NeighbourStates, Resolving_PathReady_Confirmed) {
  make_resolving();
  confirm(kPeerHw);
  grant(path_request);
  EXPECT_EQ(state(), "reachable");
  expect_sent_to(kPeerHw, 1);
}

TEST_F(NeighbourStates, Resolving_PathReady_Unconfirmed) {
  make_resolving_unparked();
  send_reply();
  grant(path_request);
  EXPECT_EQ(state(), "stale") << "a reply does not count as a use";
  expect_reply_sent_to(kPeerHw);
}

TEST_F(NeighbourStates, Resolving_SetPermanent) {
  make_resolving();
  set_permanent(kNewPeerHw);
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(entry()->parked(), 1U);
  ASSERT_EQ(path_requests().size(), 1U);
  grant(path_requests()[0]);
  expect_sent_to(kNewPeerHw, 1);
}

TEST_F(NeighbourStates, Reachable_Packet) {
  make_reachable();
  send();
  EXPECT_EQ(state(), "reachable");
  expect_sent_to(kPeerHw, 1);
  // The fast path does the same.
  Frame frame = packet();
  EXPECT_TRUE(entry()->forward(frame, out.sends, now));
  EXPECT_FALSE(frame);
  expect_sent_to(kPeerHw, 2);
}

TEST_F(NeighbourStates, Reachable_Packet_Gone) {
  make_reachable();
  now += 1s;
  paths.on_out_of_service(kNewPeerHw.gid, now);
  paths.on_in_service(kPeerHw.gid, now);
  send();
  EXPECT_EQ(state(), "reachable") << "another port was reported";
  paths.on_out_of_service(kPeerHw.gid, now);
  Frame frame = packet();
  EXPECT_FALSE(entry()->forward(frame, out.sends, now));
  frame.release();
  send();
  EXPECT_EQ(state(), "delay") << "will be probed unless it is confirmed";
  expect_sent_to(kPeerHw, 2);
  now += 1s;
  confirm(kPeerHw);
  send();
  EXPECT_EQ(state(), "reachable") << "confirmed after the report";
}

TEST_F(NeighbourStates, Reachable_ConfirmedSame) {
  make_reachable();
  const TimePoint before = neighbours.next_deadline();
  now += config.ageing.reachable * 2 / 5;
  for (int i = 0; i < 20; ++i) confirm(kPeerHw);
  EXPECT_EQ(state(), "reachable");
  EXPECT_NE(neighbours.next_deadline(), before);
  EXPECT_GE(neighbours.next_deadline(), now + config.ageing.reachable / 2);
  EXPECT_LE(neighbours.next_deadline(), now + config.ageing.reachable * 3 / 2);
}

TEST_F(NeighbourStates, Reachable_ConfirmedOther) {
  make_reachable();
  confirm(kNewPeerHw);
  EXPECT_EQ(state(), "resolving");
  EXPECT_EQ(count(Counter::neighbour_address_changes), 1U);
  grant(path_requests().at(0));
  EXPECT_EQ(state(), "reachable");
  expect_route(kNewPeerHw);
}

TEST_F(NeighbourStates, Reachable_UnconfirmedSame) {
  make_reachable();
  const TimePoint before = neighbours.next_deadline();
  now += 1s;
  learn(kPeerHw);
  EXPECT_EQ(state(), "reachable");
  EXPECT_EQ(neighbours.next_deadline(), before);
}

TEST_F(NeighbourStates, Reachable_UnconfirmedOther) {
  make_reachable();
  learn(hardware(0x44, 2));
  EXPECT_EQ(state(), "stale") << "the same port, so its path is known";
  expect_route(hardware(0x44, 2));
  send();
  expect_sent_to(hardware(0x44, 2), 1);
}

TEST_F(NeighbourStates, Stale_Packet) {
  make_stale();
  send();
  EXPECT_EQ(state(), "delay");
  expect_sent_to(kPeerHw, 1);
  EXPECT_EQ(neighbours.next_deadline(), now + config.ageing.delay);
}

TEST_F(NeighbourStates, Stale_ConfirmedOther) {
  make_stale();
  prepare_path(kNewPeerHw.gid, 8);
  confirm(kNewPeerHw);
  EXPECT_EQ(state(), "reachable");
  expect_route(kNewPeerHw);
}

TEST_F(NeighbourStates, Stale_UnconfirmedSame) {
  make_stale();
  const TimePoint before = neighbours.next_deadline();
  now += 1s;
  learn(kPeerHw);
  EXPECT_EQ(state(), "stale");
  EXPECT_EQ(neighbours.next_deadline(), before);
}

TEST_F(NeighbourStates, Stale_Deadline) {
  make_stale();
  EXPECT_EQ(neighbours.next_deadline(), now + config.ageing.idle);
  reach_deadline();
  EXPECT_EQ(state(), "gone");
}

TEST_F(NeighbourStates, Stale_SetPermanent) {
  make_stale();
  set_permanent(kNewPeerHw);
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(neighbours.next_deadline(), kNever);
}

TEST_F(NeighbourStates, Delay_Deadline) {
  make_delay();
  reach_deadline();
  EXPECT_EQ(state(), "probing");
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].to, kPeerHw.qpn);
  EXPECT_EQ(sent_arp()[0].message.operation, wire::ArpOperation::request);
  EXPECT_EQ(sent_arp()[0].message.target_hardware, kPeerHw);
  EXPECT_TRUE(path_requests().empty()) << "the SA is not asked while the neighbour responds";
}

TEST_F(NeighbourStates, Probing_Deadline_Unicast) {
  make_probing();
  for (unsigned probes = 1; probes < config.ageing.unicast_probes; ++probes) {
    forget();
    reach_deadline();
    EXPECT_EQ(state(), "probing");
    ASSERT_EQ(sent_arp().size(), 1U);
    EXPECT_EQ(sent_arp()[0].to, kPeerHw.qpn);
    EXPECT_EQ(path_requests().size(), probes == 1 ? 1U : 0U) << "requests the path again, once";
  }
}

TEST_F(NeighbourStates, Probing_Deadline_Broadcast) {
  make_probing();
  for (unsigned probes = 1; probes < config.ageing.unicast_probes; ++probes) reach_deadline();
  forget();
  reach_deadline();
  EXPECT_EQ(state(), "probing");
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].to, kMulticastQpn);
  // A probe that the rate limit rejects is delayed, not counted.
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
  make_probing();
  const unsigned all = config.ageing.unicast_probes + config.ageing.broadcast_probes;
  for (unsigned probes = 1; probes < all; ++probes) reach_deadline();
  EXPECT_EQ(state(), "probing");
  EXPECT_EQ(sent_arp().size(), all - 1);
  reach_deadline();
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(sent_arp().size(), all - 1);
}

TEST_F(NeighbourStates, Failed_Unconfirmed) {
  make_failed();
  prepare_path(kPeerHw.gid);
  learn(kPeerHw);
  EXPECT_EQ(state(), "stale");
}

TEST_F(NeighbourStates, Failed_Reply) {
  fail_path(kPeerHw.gid);
  learn(kPeerHw);
  ASSERT_EQ(state(), "failed");
  send_reply();
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
  EXPECT_TRUE(out.sends.empty());
}

TEST_F(NeighbourStates, Failed_Deadline_Gateway) {
  neighbours.watch({kPeer});
  make_failed();
  forget();
  const auto changes = neighbours.level_changes();
  reach_deadline();
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(neighbours.level_changes(), changes);
  EXPECT_EQ(sent_arp().size(), 1U);
  EXPECT_GT(neighbours.next_deadline(), now);
  neighbours.watch({});
  reach_deadline();
  EXPECT_EQ(state(), "gone");
}

TEST_F(NeighbourStates, Failed_Deadline) {
  make_failed();
  EXPECT_EQ(neighbours.next_deadline(), now + config.ageing.negative);
  reach_deadline();
  EXPECT_EQ(state(), "gone");
  send();
  EXPECT_EQ(state(), "incomplete");
  EXPECT_EQ(sent_arp().size(), 1U);
}

TEST_F(NeighbourStates, Permanent_Packet_PathPending) {
  set_permanent(kPeerHw);
  send();
  send();
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(entry()->parked(), 2U);
  EXPECT_EQ(path_requests().size(), 1U);
  EXPECT_TRUE(out.sends.empty());
}

TEST_F(NeighbourStates, Permanent_Packet_PathFailed) {
  set_permanent(kPeerHw);
  fail_path(kPeerHw.gid);
  send();
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(count(Counter::drop_path_failed), 1U);
  EXPECT_TRUE(path_requests().empty());
}

TEST_F(NeighbourStates, Permanent_Reply) {
  make_permanent();
  send_reply();
  expect_reply_sent_to(kPeerHw);
  remove();
  forget();
  set_permanent(kNewPeerHw);
  send_reply();
  EXPECT_EQ(entry()->parked(), 1U);
  grant(path_requests().at(0));
  expect_reply_sent_to(kNewPeerHw);
}

TEST_F(NeighbourStates, Permanent_LinkDown) {
  make_permanent_waiting();
  neighbours.link_down(now);
  EXPECT_EQ(state(), "permanent");
  EXPECT_EQ(count(Counter::drop_link_down), 1U);
  grant(path_request);
  EXPECT_TRUE(out.sends.empty());
  send();
  expect_sent_to(kPeerHw, 1);
}

TEST_F(NeighbourStates, Permanent_SetPermanent) {
  make_permanent_waiting();
  set_permanent(kNewPeerHw);
  EXPECT_EQ(state(), "permanent");
  expect_route(kNewPeerHw);
  grant(path_request);
  EXPECT_TRUE(out.sends.empty()) << "that was the path to its old address";
  grant(path_requests().at(0));
  expect_sent_to(kNewPeerHw, 1);
}

using NeighbourTest = NeighbourStates;

TEST_F(NeighbourTest, ChangesOfWatchedGatewaysCount) {
  make_reachable();
  neighbours.flush();
  make_failed();
  EXPECT_EQ(neighbours.level_changes(), 0U) << "no gateway";
  neighbours.flush();
  neighbours.watch({kPeer});
  make_reachable();
  EXPECT_EQ(neighbours.level_changes(), 1U);
  neighbours.flush();
  EXPECT_EQ(neighbours.level_changes(), 2U);
  make_failed();
  EXPECT_EQ(neighbours.level_changes(), 3U);
}

TEST_F(NeighbourTest, RemovalErasesAPathThatWaitsForItsFirstRequest) {
  config.limits.path_requests = 0;
  make_incomplete();
  learn(kPeerHw);
  ASSERT_EQ(state(), "resolving");
  ASSERT_TRUE(std::holds_alternative<Path::Waiting>(paths.find(kPeerHw.gid)->state()));
  remove();
  EXPECT_EQ(paths.find(kPeerHw.gid), nullptr);
}

/// A gateway that has failed is asked about at its deadlines, within the limit for probes.
TEST_F(NeighbourTest, ProbesOfAFailedGatewayAreLimited) {
  make_failed();
  const NeighbourDependencies deps{config, paths,   solicitor,  icmp,   pool,
                                   out,    parking, statistics, random, *silent_logger()};
  (void)entry()->on_gateway_deadline(deps, now);
  EXPECT_EQ(sent_arp().size(), 1U);
  forget();
  while (solicitor.admit_revalidation(now)) {
  }
  (void)entry()->on_gateway_deadline(deps, now);
  EXPECT_TRUE(sent_arp().empty());
}

TEST_F(NeighbourTest, UsesBeyond32BitsAreRestored) {
  prepare_path(kPeerHw.gid);
  restore({});
  EXPECT_EQ(entry()->info(now).uses, 0x1'0000'0005U);
  EXPECT_EQ(entry()->saved(now)->uses, 0x1'0000'0005U);
}

/// The host's own advertisements are replies, which wait for a path like those of the link.
TEST_F(NeighbourTest, TheWaitOfAReplyIsNoResolution) {
  learn(kPeerHw);
  neighbours.packet(*entry(), packet(), now, Purpose::reply);
  now += 1s;
  grant(path_requests().at(0));
  EXPECT_EQ(sent_packets(), 1U);
  for (const auto count : statistics.resolution.counts()) EXPECT_EQ(count, 0U);
}

TEST_F(NeighbourTest, APermanentAddressIsNotReportedAsLearnt) {
  config.reports_neighbours = true;
  make_permanent();
  learn(kNewPeerHw);
  EXPECT_TRUE(out.known_neighbours.empty());
  remove();
  learn(kNewPeerHw);
  EXPECT_EQ(out.known_neighbours.size(), 1U);
}

/// A neighbour and its path, with two index words each at the lowest load and 32 bytes of heap for
/// the address handle, but without the provider's memory for that.
TEST(NeighbourSizeTest, NeighbourAndPathFitInto312Bytes) {
  // Hints and index.
  constexpr double kIndex = 2 * sizeof(std::uint32_t) * 8.0 / 7.0 + 64 / 10.0;
  EXPECT_LE(sizeof(Neighbour) + sizeof(Path) + 2 * kIndex + 32, 312);
}

}  // namespace
}  // namespace ipoib::link
