// Rows of docs/states.md, "Service resolution", and its bounds.
#include "cm_fixture.hpp"

namespace softib::cm::service_resolution {
namespace {

using wire::CmSidrRep;
using wire::CmSidrReq;
using wire::CmSidrStatus;

class SidrStates : public CmFixture {
 protected:
  void resolve() {
    CmSidrReq req;
    req.service_id = kService;
    handle = manager
                 .resolve(req, path_between(ours, theirs), {std::chrono::seconds(1), kRetries},
                          ours, now)
                 .value();
  }
  [[nodiscard]] CmSidrReq request(CommId id = kTheirId) const {
    CmSidrReq req;
    req.request_id = id;
    req.service_id = kService;
    req.pkey = ipoib::kDefaultPKey;
    req.private_data[0] = 7;
    return req;
  }
  [[nodiscard]] CmSidrRep reply() const {
    CmSidrRep rep;
    rep.request_id = handle;
    rep.qpn = kTheirQpn;
    return rep;
  }
  void be_asked() {
    listen();
    receive(request());
    last_told = manager.take_events();
    ASSERT_EQ(last_told.size(), 1U);
    handle = last_told[0].handle;
  }
  void answer() {
    CmSidrRep rep;
    rep.qpn = kOurQpn;
    rep.qkey = QKey(0x01234567);
    ASSERT_TRUE(manager.answer(handle, rep, now));
  }
};

TEST_F(SidrStates, Sidr_New_Resolve) {
  resolve();
  EXPECT_EQ(sent(), Words{"SIDR_REQ"});
  const auto& req = sent_message<CmSidrReq>();
  EXPECT_EQ(req.request_id, handle);
  EXPECT_EQ(req.service_id, kService);
  EXPECT_EQ(req.pkey, ipoib::kDefaultPKey);
}

TEST_F(SidrStates, Sidr_New_Req) {
  be_asked();
  const auto& event = told_event<ServiceRequested>();
  EXPECT_EQ(event.req, request());
  EXPECT_EQ(event.path.dlid, theirs.lid);
  EXPECT_EQ(event.path.slid, ours.lid);
  EXPECT_EQ(event.path.dgid, Gid());
  EXPECT_EQ(event.path.pkey, ipoib::kDefaultPKey);
  EXPECT_EQ(event.path.service_id, kService.value());
  EXPECT_EQ(sent(), Words{});
}

TEST_F(SidrStates, Sidr_Sent_Rep) {
  resolve();
  forget_output();
  receive(reply());
  EXPECT_EQ(told(), Words{"ServiceResolved 0"});
  EXPECT_EQ(told_event<ServiceResolved>().rep.qpn, kTheirQpn);
  EXPECT_EQ(manager.resolution_count(), 0U);
  EXPECT_EQ(deadline(), ipoib::kNever);
}

TEST_F(SidrStates, Sidr_Sent_Deadline) {
  resolve();
  forget_output();
  EXPECT_EQ(deadline(), now + std::chrono::seconds(1));
  reach_deadline();
  EXPECT_EQ(sent(), Words{"SIDR_REQ"});
  EXPECT_EQ(deadline(), now + std::chrono::seconds(1));
}

TEST_F(SidrStates, Sidr_Sent_Deadline_Last) {
  resolve();
  for (unsigned i = 0; i < kRetries; ++i) reach_deadline();
  EXPECT_EQ(sent().size(), kRetries + 1);
  reach_deadline();
  EXPECT_EQ(sent(), Words{});
  EXPECT_EQ(told(), Words{"Unanswered"});
  EXPECT_EQ(manager.resolution_count(), 0U);
}

TEST_F(SidrStates, Sidr_Sent_PeerGone) {
  resolve();
  forget_output();
  now += std::chrono::milliseconds(500);
  manager.process_gone(Peer::of(Lid(12), Gid(), 2), 2, kTheirSlot, kTheirEpoch, now);
  EXPECT_EQ(sent(), Words{}) << "of another port";
  peer_gone();
  EXPECT_EQ(sent(), Words{"SIDR_REQ"});
  EXPECT_EQ(deadline(), now + std::chrono::seconds(1));
}

TEST_F(SidrStates, Sidr_Sent_Destroy) {
  resolve();
  destroy();
  EXPECT_EQ(manager.resolution_count(), 0U);
  receive(reply());
  EXPECT_EQ(told(), Words{});
  EXPECT_EQ(manager.counters().dropped(Drop::no_connection), 1U);
}

TEST_F(SidrStates, Sidr_Received_Req) {
  be_asked();
  receive(request());
  EXPECT_EQ(told(), Words{});
  EXPECT_EQ(sent(), Words{});
  EXPECT_EQ(manager.counters().duplicates[wire::CmMessage(CmSidrReq()).index()], 1U);
}

TEST_F(SidrStates, Sidr_Received_Answer) {
  be_asked();
  answer();
  EXPECT_EQ(sent(), Words{"SIDR_REP 0"});
  const auto& rep = sent_message<CmSidrRep>();
  EXPECT_EQ(rep.request_id, kTheirId);
  EXPECT_EQ(rep.service_id, kService);
  EXPECT_EQ(rep.qpn, kOurQpn);
  EXPECT_EQ(last_sent[0].transaction_id, transaction);
  EXPECT_EQ(manager.answer(handle, {}, now).error().message,
            "the request for a service is answered already, or its sender has given up");
}

TEST_F(SidrStates, Sidr_Received_Destroy) {
  be_asked();
  destroy();
  EXPECT_EQ(sent(), Words{"SIDR_REP 2"});
}

TEST_F(SidrStates, Sidr_Answered_Req) {
  be_asked();
  answer();
  forget_output();
  receive(request());
  EXPECT_EQ(sent(), Words{"SIDR_REP 0"});
  EXPECT_EQ(told(), Words{});
}

TEST_F(SidrStates, Sidr_Answered_Deadline) {
  be_asked();
  answer();
  EXPECT_EQ(deadline(), now + kServiceAnswerRetention);
  reach_deadline();
  EXPECT_EQ(told(), Words{});
  EXPECT_EQ(manager.resolution_count(), 0U);
  receive(request());
  EXPECT_EQ(told(), Words{"ServiceRequested"}) << "as a new one";
}

class ServiceResolutionTest : public SidrStates {};

TEST_F(ServiceResolutionTest, AGlobalRouteOfARequestIsThatOfThePath) {
  auto path = path_between(theirs, ours);
  path.sl = ServiceLevel(3);
  path.flow_label = 0xabcde;
  path.traffic_class = 0x20;
  path.hop_limit = 64;
  listen();
  manager.receive(Route::along(path, theirs).packet({7, request()}), ours, now);
  ASSERT_EQ(told(), Words{"ServiceRequested"});
  const auto& back = told_event<ServiceRequested>().path;
  EXPECT_EQ(back.sl, ServiceLevel(3));
  EXPECT_EQ(back.dgid, theirs.gid());
  EXPECT_EQ(back.sgid, ours.gid());
  EXPECT_EQ(back.flow_label, 0xabcdeU);
  EXPECT_EQ(back.traffic_class, 0x20);
  EXPECT_EQ(back.hop_limit, 64);
}

TEST_F(ServiceResolutionTest, AnswersWithoutAListener) {
  receive(request());
  EXPECT_EQ(sent(), Words{"SIDR_REP 1"});
  EXPECT_EQ(sent_message<CmSidrRep>().request_id, kTheirId);
  EXPECT_EQ(manager.resolution_count(), 0U);
}

TEST_F(ServiceResolutionTest, TakesAReplyOnlyFromThePortThatWasAsked) {
  resolve();
  const auto stranger = port_with(Lid(12));
  receive(reply(), &stranger);
  EXPECT_EQ(told(), Words{});
  auto other_path = theirs;
  other_path.lid = Lid(9);
  receive(reply(), &other_path);
  EXPECT_EQ(told(), Words{"ServiceResolved 0"}) << "another LID of the port";
}

TEST_F(ServiceResolutionTest, BoundsOwnRequests) {
  for (std::size_t i = 0; i < kMaxResolutions; ++i) resolve();
  const auto more = manager.resolve({}, path_between(ours, theirs), {}, ours, now);
  EXPECT_EQ(more.error().message,
            "the process waits for 4096 services, the maximum: try again later");
}

TEST_F(ServiceResolutionTest, BoundsRequestsOfOnePort) {
  listen();
  std::uint32_t id = 1;
  while (manager.counters().dropped(Drop::full) == 0) receive(request(CommId(id++)));
  EXPECT_EQ(manager.resolution_count(), kMaxServiceRequests / 2);
  const auto other = port_with(Lid(12));
  receive(request(), &other);
  EXPECT_EQ(manager.resolution_count(), kMaxServiceRequests / 2 + 1);
}

}  // namespace
}  // namespace softib::cm::service_resolution
