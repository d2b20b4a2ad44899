// What the rows of docs/states.md do not say: contents of messages, times, who may speak for a
// connection, bounds, counters.
#include "cm_fixture.hpp"

namespace softib::cm::communication_manager {
namespace {

using wire::Psn;

constexpr Duration kInterval = time_of(kTimeCode) + 2 * time_of(kTimeCode - 2);

class CommunicationManagerTest : public CmFixture {
 protected:
  template <class Message>
  [[nodiscard]] std::uint64_t index() const {
    return wire::CmMessage(Message()).index();
  }
  [[nodiscard]] const QpParameters& parameters() const {
    return manager.connection(handle)->parameters();
  }
  [[nodiscard]] std::uint64_t unknown() const {
    return manager.counters().dropped(Drop::no_connection);
  }
};

TEST_F(CommunicationManagerTest, ReqHasTheValuesOfThePath) {
  ours.lid = Lid(6);
  auto path = path_between(ours, theirs);
  path.sl = ServiceLevel(3);
  path.flow_label = 0xabcde;
  path.traffic_class = 0x20;
  path.hop_limit = 1;
  handle = manager.connect(request_to_connect(kOurQpn), path, ours, now).value();
  ASSERT_EQ(sent(), Words{"REQ"});
  const auto& req = sent_message<CmReq>();
  EXPECT_EQ(req.local_id, handle);
  EXPECT_EQ(CommIdLayout::slot(handle), 1U);
  EXPECT_EQ(CommIdLayout::epoch(handle), 2U);
  EXPECT_EQ(req.ca_guid, Guid(0x11));
  EXPECT_EQ(req.pkey, path.pkey);
  EXPECT_EQ(req.mtu, 4);
  EXPECT_EQ(req.primary.local_lid, Lid(6));
  EXPECT_EQ(req.primary.remote_lid, theirs.lid);
  EXPECT_EQ(req.primary.local_gid, ours.gid());
  EXPECT_EQ(req.primary.remote_gid, theirs.gid());
  EXPECT_EQ(req.primary.sl, ServiceLevel(3));
  EXPECT_EQ(req.primary.flow_label, 0xabcdeU);
  EXPECT_EQ(req.primary.traffic_class, 0x20);
  EXPECT_EQ(req.primary.hop_limit, 1);
  EXPECT_EQ(req.primary.rate, path.rate);
  EXPECT_TRUE(req.primary.is_subnet_local);
  EXPECT_EQ(req.primary.ack_timeout, ack_timeout_of(path.lifetime, 15));
  EXPECT_FALSE(req.has_alternate());
}

TEST_F(CommunicationManagerTest, SendsAGrhWhereItIsNeeded) {
  const auto grh_of_req = [&](const PortAttributes& port, std::uint8_t hop_limit) {
    auto path = path_between(ours, theirs);
    path.hop_limit = hop_limit;
    (void)manager.connect(request_to_connect(kOurQpn), path, port, now);
    return manager.take_outgoing().at(0).grh;
  };
  EXPECT_FALSE(grh_of_req(ours, 1));
  const auto routed = grh_of_req(ours, 64);
  ASSERT_TRUE(routed);
  EXPECT_EQ(routed->dgid, theirs.gid());
  EXPECT_EQ(routed->sgid, ours.gid());
  EXPECT_EQ(routed->hop_limit, 64);
  auto virtual_function = ours;
  virtual_function.grh_required = true;
  EXPECT_TRUE(grh_of_req(virtual_function, 1));
}

TEST_F(CommunicationManagerTest, AnswersAlongTheRouteOfTheRequest) {
  auto from = theirs;
  from.grh_required = true;
  MadPacket packet = Route::along(path_between(theirs, ours), from).packet({5, req()});
  listen();
  manager.receive(packet, ours, now);
  handle = manager.take_events().at(0).handle;
  accept();
  const auto answer = manager.take_outgoing().at(0);
  EXPECT_EQ(answer.dlid, theirs.lid);
  ASSERT_TRUE(answer.grh);
  EXPECT_EQ(answer.grh->dgid, theirs.gid());
  EXPECT_EQ(wire::CmMad::parse(answer.mad)->transaction_id, 5U);
}

TEST_F(CommunicationManagerTest, TheActiveQueuePairGetsTheAgreedParameters) {
  connect();
  const auto& qp = parameters();
  EXPECT_EQ(qp.responder_resources, 4) << "of the REQ, until the peer agrees";
  EXPECT_EQ(qp.initiator_depth, 5);
  EXPECT_EQ(qp.retry_count, 6);
  EXPECT_EQ(qp.rnr_retry_count, 7);
  EXPECT_EQ(qp.ack_timeout, ack_timeout_of(kTimeCode - 2, 15));
  receive(rep());
  EXPECT_EQ(qp.remote_qpn, kTheirQpn);
  EXPECT_EQ(qp.rq_psn, Psn(100)) << "our own of the REQ";
  EXPECT_EQ(qp.sq_psn, Psn(200));
  EXPECT_EQ(qp.responder_resources, 3) << "the peer's initiator depth";
  EXPECT_EQ(qp.initiator_depth, 2);
  EXPECT_EQ(qp.rnr_retry_count, 5);
  EXPECT_EQ(qp.ack_timeout, kTimeCode) << "2 * 2^16 and 2^17 are 2^18";
  EXPECT_EQ(qp.path.service_id, kService.value());
  EXPECT_EQ(qp.path.dlid, theirs.lid);
  EXPECT_EQ(qp.path.mtu, 4);
}

TEST_F(CommunicationManagerTest, ThePassiveQueuePairGetsTheAgreedParameters) {
  listen();
  CmReq one = req();
  one.primary.flow_label = 0xabcde;
  one.primary.traffic_class = 0x20;
  one.primary.hop_limit = 3;
  one.primary.sl = ServiceLevel(4);
  receive(one);
  handle = manager.take_events().at(0).handle;
  accept();
  const auto& qp = parameters();
  EXPECT_EQ(qp.remote_qpn, kTheirQpn);
  EXPECT_EQ(qp.rq_psn, Psn(300));
  EXPECT_EQ(qp.sq_psn, Psn(100));
  EXPECT_EQ(qp.responder_resources, 1);
  EXPECT_EQ(qp.initiator_depth, 2);
  EXPECT_EQ(qp.retry_count, 6);
  EXPECT_EQ(qp.rnr_retry_count, 7);
  EXPECT_EQ(qp.ack_timeout, kTimeCode - 1);
  EXPECT_EQ(qp.path.service_id, kService.value());
  EXPECT_EQ(qp.path.dlid, theirs.lid);
  EXPECT_EQ(qp.path.slid, ours.lid);
  EXPECT_EQ(qp.path.dgid, theirs.gid());
  EXPECT_EQ(qp.path.sgid, ours.gid());
  EXPECT_EQ(qp.path.mtu, 4);
  EXPECT_EQ(qp.path.rate, 3);
  EXPECT_EQ(qp.path.flow_label, 0xabcdeU);
  EXPECT_EQ(qp.path.traffic_class, 0x20);
  EXPECT_EQ(qp.path.hop_limit, 3);
  EXPECT_EQ(qp.path.sl, ServiceLevel(4));
  EXPECT_EQ(qp.path.pkey, ipoib::kDefaultPKey);
  EXPECT_EQ(qp.path.lifetime, kTimeCode - 2) << "half of the ACK time-out";
}

TEST_F(CommunicationManagerTest, MessagesCarryTheIdsAndTheTransactionOfTheReq) {
  be_asked();
  const auto of_req = transaction;
  prepare_mra();
  receive({of_req, req()});
  ASSERT_EQ(sent(), Words{"MRA"}) << "once the peer asks again";
  EXPECT_EQ(sent_message<CmMra>().local_id, handle);
  EXPECT_EQ(sent_message<CmMra>().remote_id, kTheirId);
  EXPECT_EQ(sent_message<CmMra>().subject, CmSubject::req);
  EXPECT_EQ(sent_message<CmMra>().service_timeout, kTimeCode);
  EXPECT_EQ(last_sent[0].transaction_id, of_req);
  accept();
  receive(rtu());
  disconnect();
  ASSERT_EQ(sent(), (Words{"REP", "DREQ"}));
  const auto& rep = sent_message<CmRep>(0);
  EXPECT_EQ(rep.local_id, handle);
  EXPECT_EQ(rep.remote_id, kTheirId);
  EXPECT_EQ(rep.ca_guid, Guid(0x11));
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(last_sent[0].transaction_id, of_req);
  const auto& dreq = sent_message<CmDreq>(1);
  EXPECT_EQ(dreq.local_id, handle);
  EXPECT_EQ(dreq.remote_id, kTheirId);
  EXPECT_EQ(dreq.remote_qpn, kTheirQpn);
  EXPECT_NE(last_sent[1].transaction_id, of_req);
}

TEST_F(CommunicationManagerTest, RefusesAnAlternatePath) {
  listen();
  CmReq with_alternate = req();
  with_alternate.alternate = with_alternate.primary;
  receive(with_alternate);
  handle = manager.take_events().at(0).handle;
  accept();
  (void)sent();
  EXPECT_EQ(sent_message<CmRep>().failover, CmRep::kFailoverUnsupported);
  receive(theirs_about<wire::CmLap>());
  EXPECT_EQ(sent(), Words{"APR 2"});
  EXPECT_EQ(sent_message<wire::CmApr>().local_id, handle);
  EXPECT_EQ(sent_message<wire::CmApr>().remote_id, kTheirId);
  auto unknown_lap = theirs_about<wire::CmLap>();
  unknown_lap.remote_id = CommId(1);
  receive(unknown_lap);
  EXPECT_EQ(sent(), Words{"APR 1"});
}

TEST_F(CommunicationManagerTest, PrivateDataReachTheUser) {
  const auto marked = [](auto message) {
    message.private_data.front() = 0xaa;
    message.private_data.back() = 0xbb;
    return message;
  };
  connect();
  receive(marked(rep()));
  confirm();
  receive(marked(dreq()));
  EXPECT_EQ(told(), (Words{"Accepted", "Disconnected, awaits answer"}));
  EXPECT_EQ(told_event<Accepted>(0).rep.private_data.back(), 0xbb);
  EXPECT_EQ(told_event<Disconnected>(1).private_data[0], 0xaa);
  EXPECT_EQ(told_event<Disconnected>(1).private_data[219], 0xbb);
  be_asked();
  accept();
  receive(marked(rtu()));
  EXPECT_EQ(told(), Words{"Established"});
  EXPECT_EQ(told_event<Established>().private_data.back(), 0xbb);
  disconnect();
  receive(marked(drep()));
  EXPECT_EQ(told(), Words{"Disconnected"});
  EXPECT_EQ(told_event<Disconnected>().private_data.back(), 0xbb);
}

TEST_F(CommunicationManagerTest, RepeatsAfterTheTimesOfReqAndPath) {
  connect();
  EXPECT_EQ(deadline(), now + kInterval);
  manager.on_time(now + kInterval - Duration(1));
  EXPECT_EQ(sent(), Words{"REQ"}) << "the first one";
  reach_deadline();
  EXPECT_EQ(sent(), Words{"REQ"});
  receive(mra(CmSubject::req));
  EXPECT_EQ(deadline(), now + time_of(kTimeCode + 1) + kInterval);
}

TEST_F(CommunicationManagerTest, PeersNameTimesWithinBounds) {
  listen();
  CmReq slow = req();
  slow.local_response_timeout = 31;
  receive(slow);
  handle = manager.take_events().at(0).handle;
  accept();
  EXPECT_LE(deadline() - now, std::chrono::seconds(10));
  CmReq quick = req();
  quick.local_id = CommId(1);
  quick.qpn = Qpn(1);
  quick.local_response_timeout = quick.primary.ack_timeout = 0;
  receive(quick);
  handle = manager.take_events().at(0).handle;
  accept();
  EXPECT_EQ(deadline(), now + kMinInterval);
}

TEST_F(CommunicationManagerTest, TimeWaitIsTheAckTimeout) {
  connect();
  receive(rep());
  confirm();
  disconnect();
  receive(drep());
  EXPECT_EQ(deadline(), now + time_of(kTimeCode));
}

TEST_F(CommunicationManagerTest, AHandleThatIsInUseIsNotGivenToAService) {
  connect();
  for (std::uint32_t i = 0; i < CommIdLayout::kIndices; ++i) {
    const auto other = manager.resolve({}, path_between(ours, theirs), {}, ours, now).value();
    ASSERT_NE(other, handle);
    manager.destroy(other, now);
  }
}

TEST(Counters, OtherProcessesReadThemAsTheyAre) {
  Counters counters;
  std::uint64_t next = 0;
  for (auto* const each :
       {&counters.sent, &counters.retries, &counters.received, &counters.duplicates}) {
    for (auto& counter : *each) counter = ++next;
  }
  for (auto& counter : counters.drops) counter = ++next;
  const auto read = Counters::of(counters.values());
  EXPECT_EQ(read.sent, counters.sent);
  EXPECT_EQ(read.retries, counters.retries);
  EXPECT_EQ(read.received, counters.received);
  EXPECT_EQ(read.duplicates, counters.duplicates);
  EXPECT_EQ(read.drops, counters.drops);
}

TEST(AckTimeout, CoversRoundTripAndDelay) {
  EXPECT_EQ(ack_timeout_of(18, 0), 19);
  EXPECT_EQ(ack_timeout_of(18, 18), 20);
  EXPECT_EQ(ack_timeout_of(18, 19), 20);
  EXPECT_EQ(ack_timeout_of(18, 20), 21);
  EXPECT_EQ(ack_timeout_of(18, 25), 25);
  EXPECT_EQ(ack_timeout_of(31, 31), 31);
}

TEST_F(CommunicationManagerTest, RejectsConnectionsThatThePortCannotHave) {
  listen();
  const auto rejected = [&](auto change) {
    CmReq one = req();
    change(one);
    receive(one);
    return sent();
  };
  using Transport = wire::CmTransport;
  EXPECT_EQ(rejected([](CmReq& one) { one.service_id = wire::ServiceId(1); }), Words{"REJ 8"});
  EXPECT_EQ(rejected([](CmReq& one) { one.transport = Transport::reliable_datagram; }),
            Words{"REJ 9"});
  EXPECT_EQ(rejected([](CmReq& one) { one.transport = Transport::extended; }), Words{"REJ 9"});
  EXPECT_EQ(rejected([&](CmReq& one) { one.primary.remote_gid = theirs.gid(); }), Words{"REJ 12"});
  EXPECT_EQ(sent_message<CmRej>().info, wire::CmAdditionalInfo::of(ours.gid().bytes()));
  EXPECT_EQ(rejected([&](CmReq& one) { one.primary.remote_lid = theirs.lid; }), Words{"REJ 13"});
  EXPECT_EQ(rejected([](CmReq& one) { one.mtu = 5; }), Words{"REJ 26"});
  EXPECT_EQ(sent_message<CmRej>().info, wire::CmAdditionalInfo::of(std::array{ours.mtu}));
  EXPECT_EQ(rejected([](CmReq& one) { one.mtu = 0; }), Words{"REJ 26"});
  const auto& rej = sent_message<CmRej>();
  EXPECT_EQ(rej.remote_id, kTheirId);
  EXPECT_EQ(rej.local_id, CommId());
  EXPECT_EQ(rej.subject, CmSubject::req);
  EXPECT_EQ(manager.connection_count(), 0U) << "a rejected request leaves nothing";
  EXPECT_EQ(rejected([](CmReq& one) {
              one.transport = Transport::extended;
              one.extended_transport = wire::kXrcTransport;
            }),
            Words{});
  EXPECT_EQ(told(), Words{"ConnectionRequested"});
}

TEST_F(CommunicationManagerTest, RefusesTransportsWithoutConnections) {
  CmReq one = request_to_connect(kOurQpn);
  one.transport = wire::CmTransport::reliable_datagram;
  EXPECT_EQ(manager.connect(one, path_between(ours, theirs), ours, now).error().message,
            "only reliable, unreliable and extended reliable connections are supported");
}

TEST_F(CommunicationManagerTest, ARejectionMayComeFromAProcessWithoutAnId) {
  connect();
  CmRej one = rej(CmRejReason::invalid_service_id);
  one.local_id = CommId();
  receive(one);
  EXPECT_EQ(told(), Words{"Rejected 8"});
}

TEST_F(CommunicationManagerTest, ARejectionOfAReqThatWasAnsweredNamesItsSender) {
  connect();
  receive(rep());
  forget_output();
  CmRej one = rej();
  one.local_id = CommId();
  receive(one);
  EXPECT_EQ(told(), Words{});
  EXPECT_EQ(unknown(), 1U);
}

TEST_F(CommunicationManagerTest, AnswersMessagesAboutUnknownConnections) {
  handle = CommIdLayout::make(2, 1, 1234);
  receive(rep());
  EXPECT_EQ(sent(), Words{"REJ 6"});
  EXPECT_EQ(sent_message<CmRej>().local_id, handle);
  EXPECT_EQ(sent_message<CmRej>().remote_id, kTheirId);
  receive(rtu());
  EXPECT_EQ(sent(), Words{"REJ 6"});
  receive(dreq());
  EXPECT_EQ(sent(), Words{"DREP"});
  EXPECT_EQ(sent_message<CmDrep>().local_id, handle);
  EXPECT_EQ(sent_message<CmDrep>().remote_id, kTheirId);
  receive(rej());
  receive(drep());
  receive(mra(CmSubject::req));
  EXPECT_EQ(sent(), Words{}) << "nobody waits for an answer";
  EXPECT_EQ(unknown(), 3U);
}

TEST_F(CommunicationManagerTest, OnlyThePeerSpeaksForAConnection) {
  connect();
  receive(rep());
  confirm();
  forget_output();
  const auto stranger = port_with(Lid(12));
  receive(rej(), &stranger);
  EXPECT_EQ(unknown(), 1U);
  CmRej other_id = rej();
  other_id.local_id = CommId(1);
  receive(other_id);
  EXPECT_EQ(unknown(), 2U);
  CmDreq other_qp = dreq();
  other_qp.remote_qpn = Qpn(1);
  receive(other_qp);
  EXPECT_EQ(manager.counters().dropped(Drop::unexpected), 1U);
  EXPECT_EQ(told(), Words{});
  EXPECT_EQ(state(), "Established");
  auto other_path = theirs;
  other_path.lid = Lid(10);
  receive(rej(), &other_path);
  EXPECT_EQ(told(), Words{"Disconnected"}) << "another LID of the port";
}

TEST_F(CommunicationManagerTest, ARequestOfAnotherPortIsNoDuplicate) {
  be_asked();
  auto third = port_with(Lid(12));
  CmReq same_id = req();
  same_id.primary = path_of_req(path_between(third, ours), 0);
  receive(same_id, &third);
  EXPECT_EQ(told(), Words{"ConnectionRequested"});
  EXPECT_EQ(manager.connection_count(), 2U);
}

TEST_F(CommunicationManagerTest, ATimeWaitDoesNotHoldTheQueuePairOfThePeer) {
  be_asked();
  accept();
  receive(rtu());
  receive(dreq());
  disconnect();
  forget_output();
  CmReq again = req();
  again.local_id = CommIdLayout::make(kTheirEpoch, kTheirSlot, 78);
  receive(again);
  EXPECT_EQ(told(), Words{"ConnectionRequested"});
}

TEST_F(CommunicationManagerTest, AGoneProcessTakesOnlyItsOwnConnections) {
  connect();
  receive(rep());
  confirm();
  forget_output();
  manager.process_gone(Peer::of(theirs.lid, Gid(), theirs.lmc), theirs.lmc, kTheirSlot,
                       kTheirEpoch + 1, now);
  manager.process_gone(Peer::of(theirs.lid, Gid(), theirs.lmc), theirs.lmc, kTheirSlot + 1,
                       kTheirEpoch, now);
  manager.process_gone(Peer::of(Lid(12), Gid(), theirs.lmc), theirs.lmc, kTheirSlot, kTheirEpoch,
                       now);
  EXPECT_EQ(told(), Words{});
  manager.process_gone(Peer::of(Lid(9), Gid(), theirs.lmc), theirs.lmc, kTheirSlot, kTheirEpoch,
                       now);
  EXPECT_EQ(told(), Words{"Disconnected"}) << "another LID of the port";
}

TEST_F(CommunicationManagerTest, ARequestThatWasDelayedByAGoneProcessIsRepeated) {
  connect();
  receive(mra(CmSubject::req));
  forget_output();
  peer_gone();
  EXPECT_EQ(sent(), Words{"REQ"});
  EXPECT_EQ(deadline(), now + kInterval);
  CmRep of_another = rep();
  of_another.local_id = CommIdLayout::make(kTheirEpoch, kTheirSlot + 1, 1);
  receive(of_another);
  EXPECT_EQ(told(), Words{"Accepted"});
}

TEST_F(CommunicationManagerTest, ARequestThatWasDelayedMayBeAcceptedByAnotherId) {
  connect();
  receive(mra(CmSubject::req));
  CmRep of_another = rep();
  of_another.local_id = CommIdLayout::make(kTheirEpoch, kTheirSlot, 1);
  receive(of_another);
  EXPECT_EQ(told(), Words{"Accepted"}) << "the request was forgotten, and repeated";
}

TEST_F(CommunicationManagerTest, RefusesCallsThatDoNotFit) {
  const auto refusals = [&] {
    return std::vector<int>{manager.accept(handle, {}, now).error().code,
                            manager.confirm(handle, {}).error().code,
                            manager.reject(handle, {}, now).error().code,
                            manager.prepare_mra(handle, {}).error().code,
                            manager.communication_established(handle).error().code,
                            manager.disconnect(handle, {}, now).error().code,
                            manager.forget(handle).error().code};
  };
  const std::vector<int> all(7, EINVAL);
  EXPECT_EQ(refusals(), all) << "no such connection";
  connect();
  EXPECT_EQ(refusals(), all) << manager.accept(handle, {}, now).error().message;
  receive(rep());
  confirm();
  disconnect();
  EXPECT_EQ(refusals(), all);
  destroy();
  EXPECT_EQ(refusals(), all) << "released";
  EXPECT_EQ(manager.connection(handle), nullptr);
}

TEST_F(CommunicationManagerTest, DestroyDropsEventsThatWereNotTaken) {
  listen();
  receive(req());
  manager.for_each_connection([&](const Connection& one) { handle = one.handle(); });
  destroy();
  EXPECT_EQ(told(), Words{});
}

TEST_F(CommunicationManagerTest, AForgottenRequestIsNewWhenItIsRepeated) {
  be_asked();
  forget();
  receive(req());
  EXPECT_EQ(told(), Words{"ConnectionRequested"});
}

TEST_F(CommunicationManagerTest, StopsListening) {
  const auto listener = manager.listen(kService).value();
  manager.stop_listening(listener);
  receive(req());
  EXPECT_EQ(sent(), Words{"REJ 8"});
}

TEST(HandleSequence, UsesEachAgainAsLateAsPossible) {
  HandleSequence handles(2, 1);
  const auto nothing = [](Handle) { return false; };
  const Handle first = handles.next(nothing);
  for (std::uint32_t i = 1; i < CommIdLayout::kIndices; ++i) {
    ASSERT_NE(handles.next(nothing), first);
  }
  EXPECT_NE(handles.next([&](Handle handle) { return handle == first; }), first) << "in use";
  EXPECT_EQ(CommIdLayout::slot(first), 1U);
  EXPECT_EQ(CommIdLayout::epoch(first), 2U);
}

TEST_F(CommunicationManagerTest, BoundsConnections) {
  for (std::size_t i = 0; i < kMaxConnections; ++i) {
    connect();
    if (i % 1024 == 0) (void)manager.take_outgoing();
  }
  const auto more =
      manager.connect(request_to_connect(kOurQpn), path_between(ours, theirs), ours, now);
  EXPECT_EQ(more.error().code, ENOMEM);
  EXPECT_EQ(more.error().message, "a process can have 65536 connections: close some");
  listen();
  (void)manager.take_outgoing();
  receive(req());
  EXPECT_EQ(sent(), Words{});
  EXPECT_EQ(manager.counters().dropped(Drop::full), 1U);
}

TEST_F(CommunicationManagerTest, BoundsRequestsOfOnePort) {
  listen();
  const auto ask = [&](std::uint32_t id, const PortAttributes& from) {
    CmReq one = req();
    one.local_id = CommId(id);
    one.qpn = Qpn(id);
    one.primary = path_of_req(path_between(from, ours), 0);
    receive(one, &from);
  };
  std::uint32_t id = 1;
  while (manager.counters().dropped(Drop::full) == 0) ask(id++, theirs);
  EXPECT_EQ(manager.pending_requests(), kMaxRequests / 2);
  const auto other = port_with(Lid(12));
  ask(1, other);
  EXPECT_EQ(manager.pending_requests(), kMaxRequests / 2 + 1);

  handle = manager.take_events().at(0).handle;
  accept();
  CmRtu ready = rtu();
  ready.local_id = CommId(1);
  receive(ready);
  EXPECT_EQ(state(), "Established");
  EXPECT_EQ(manager.pending_requests(), kMaxRequests / 2) << "a connection is no request";
  (void)manager.take_outgoing();
  ask(id, theirs);
  EXPECT_EQ(manager.pending_requests(), kMaxRequests / 2 + 1);
}

TEST_F(CommunicationManagerTest, CountsByMessage) {
  connect();
  reach_deadline();
  receive(rep());
  confirm();
  receive(rep());
  const auto& counters = manager.counters();
  EXPECT_EQ(counters.sent[index<CmReq>()], 2U);
  EXPECT_EQ(counters.retries[index<CmReq>()], 1U);
  EXPECT_EQ(counters.received[index<CmRep>()], 2U);
  EXPECT_EQ(counters.duplicates[index<CmRep>()], 1U);
  EXPECT_EQ(counters.sent[index<CmRtu>()], 2U);
  EXPECT_EQ(counters.retries[index<CmRtu>()], 1U);
}

TEST_F(CommunicationManagerTest, CountsMadsThatAreNoMessages) {
  MadPacket packet = Route::along(path_between(theirs, ours), theirs).packet({1, rtu()});
  packet.mad[2] = 1;
  manager.receive(packet, ours, now);
  EXPECT_EQ(manager.counters().dropped(Drop::malformed), 1U);
  receive(theirs_about<wire::CmApr>());
  EXPECT_EQ(manager.counters().dropped(Drop::unexpected), 1U);
}

TEST_F(CommunicationManagerTest, ConnectsWithinOneProcess) {
  theirs = ours;
  expected_dlid = ours.lid;
  listen();
  connect();
  const Handle active = handle;
  const auto carry = [&] {
    for (auto packets = manager.take_outgoing(); !packets.empty();
         packets = manager.take_outgoing()) {
      for (const auto& packet : packets) manager.receive(packet, ours, now);
    }
  };
  carry();
  handle = manager.take_events().at(0).handle;
  CmRep one;
  one.qpn = kTheirQpn;
  ASSERT_TRUE(manager.accept(handle, one, now));
  carry();
  ASSERT_EQ(told(), Words{"Accepted"});
  ASSERT_TRUE(manager.confirm(active, {}));
  carry();
  ASSERT_EQ(told(), Words{"Established"});
  manager.destroy(active, now);
  carry();
  EXPECT_EQ(told(), Words{"Disconnected, awaits answer"});
  disconnect();
  carry();
  while (deadline() != ipoib::kNever) reach_deadline();
  EXPECT_EQ(told(), Words{"TimeWaitOver"});
  EXPECT_EQ(manager.connection_count(), 0U);
}

TEST_F(CommunicationManagerTest, KnowsWhichMessagesOfTheNodeAreItsOwn) {
  const auto is_ours = [&](const wire::CmMessage& message, Lid from = Lid(8)) {
    return manager.is_recipient(message, Peer::of(from, Gid(), ours.lmc), ours.number);
  };
  wire::CmSidrReq sidr;
  sidr.service_id = kService;
  EXPECT_FALSE(is_ours(req()) || is_ours(sidr)) << "another process listens";
  CmRtu any;
  any.remote_id = CommIdLayout::make(2, 1, 12345);
  EXPECT_TRUE(is_ours(any)) << "has the slot and the epoch of the process";
  any.remote_id = CommIdLayout::make(2, 2, 0);
  EXPECT_FALSE(is_ours(any));
  any.remote_id = CommIdLayout::make(3, 1, 0);
  EXPECT_FALSE(is_ours(any));
  CmRej anonymous = rej(CmRejReason::timeout);
  anonymous.remote_id = CommId();
  EXPECT_FALSE(is_ours(anonymous));
  const auto listener = manager.listen(kService).value();
  is_listening = true;
  EXPECT_TRUE(is_ours(req()) && is_ours(sidr));
  be_asked();
  EXPECT_TRUE(is_ours(anonymous, Lid(9))) << "the same port";
  EXPECT_FALSE(is_ours(anonymous, Lid(12)));
  receive(sidr);
  manager.stop_listening(listener);
  EXPECT_TRUE(is_ours(req()) && is_ours(sidr)) << "duplicates get the same answer";
  sidr.request_id = CommId(5);
  EXPECT_FALSE(is_ours(sidr));
}

}  // namespace
}  // namespace softib::cm::communication_manager
