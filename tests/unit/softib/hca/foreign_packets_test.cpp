// Packets as softib's own requester and responder never send them: what breaks the rules is refused
// (IBA 9.7.4.1, 9.7.5.2.4), and what only looks as if it did is executed.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using ipoib::wire::Aeth;
using ipoib::wire::ConnectedOpcode;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

/// A packet of a request: of one on memory, with so many bytes in its RETH.
struct Part {
  ConnectedOpcode opcode;
  std::size_t payload;
  std::uint32_t length = 0;
};

class ForeignPacketsTest : public ConnectionTest {
 protected:
  using enum ConnectedOpcode;
  ForeignPacketsTest() {
    network.on_packet = [this](const ConnectedPacket& each) { responses.push_back(each); };
  }
  void arrive(const Part& part, std::uint32_t at, std::uint32_t key) {
    auto next = packet(part.opcode, at);
    next.reth = {b.address(0), key, part.length};
    next.atomic = {b.address(0), key, 1, 0};
    next.bth.ack_request = true;
    arrives(next, part.payload);
  }
  void arrive(const std::vector<Part>& parts) {
    for (const auto& part : parts) arrive(part, psn++, b.all.key);
  }
  [[nodiscard]] ibv_qp_attr agreed() const { return b.connected_attributes(qa.number(), 5); }
  /// Connects the queue pairs anew, that of `b` with these attributes.
  void connect_again(const ibv_qp_attr& with) {
    reset();
    a.connect(qa, a.connected_attributes(qb.number(), 6));
    b.connect(qb, with);
    responses.clear();
    b.hca.clear_events();
    psn = 0;
  }
  void expect_refused(std::uint8_t nak) {
    network.run();
    ASSERT_FALSE(responses.empty());
    EXPECT_EQ(responses.back().aeth.kind, Aeth::Kind::nak);
    EXPECT_EQ(responses.back().aeth.value, nak);
    EXPECT_EQ(qb.state(), IBV_QPS_ERR);
  }
  [[nodiscard]] std::vector<std::uint32_t> numbers_of_messages() const {
    std::vector<std::uint32_t> out;
    for (const auto& each : responses) out.push_back(each.aeth.msn);
    return out;
  }

  std::uint32_t psn = 0;
  std::vector<ConnectedPacket> responses;
};

TEST_F(ForeignPacketsTest, RequestsWhosePartsDoNotFitAreInvalid) {
  const std::vector<std::vector<Part>> rows = {
      {{write_only, 4, 10}},
      {{write_only, 10, 4}},
      {{write_only, 1025, 1025}},
      {{write_only, 4, kMaxMessage + 1}},
      {{write_first, 1024, 3000}, {write_last, 10}},
      {{write_first, 1024, kMaxMessage + 1}},
      {{write_first, 1024, 1000}},
      {{write_first, 1024, 2000}, {write_middle, 1024}},
      {{write_first, 1000, 3000}},
      {{write_first, 1024, 1024}, {write_last, 0}},
      {{write_first, 1024, 2048}, {write_only, 10, 10}},
      {{write_first, 1024, 2048}, {read_request, 0, 10}},
      {{write_first, 1024, 1034}, {send_last, 10}},
      {{write_last, 10}},
      {{read_request, 0, kMaxMessage + 1}},
      {{atomic_write, 8, 16}},
      {{atomic_write, 8, 4}},
      {{atomic_write, 4, 8}},
      {{atomic_write, 16, 16}},
  };
  for (std::size_t row = 0; row < rows.size(); ++row) {
    SCOPED_TRACE(row);
    connect_again(agreed());
    arrive(rows[row]);
    expect_refused(Aeth::kInvalidRequest);
    EXPECT_THAT(b.async_events(), Contains(IBV_EVENT_QP_REQ_ERR));
  }
}

/// The receive that has begun to be filled completes, with an error.
TEST_F(ForeignPacketsTest, AMessageThatDoesNotEndAsItBeganEndsItsReceive) {
  ASSERT_EQ(b.post_receive(qb, 0, 5000), 0);
  arrive({{send_first, 1024}, {write_last, 10}});
  expect_refused(Aeth::kInvalidRequest);
  EXPECT_THAT(statuses(b.poll()), ElementsAre(IBV_WC_REM_INV_REQ_ERR));
  EXPECT_THAT(b.async_events(), testing::Not(Contains(IBV_EVENT_QP_REQ_ERR)));
}

TEST_F(ForeignPacketsTest, AKeyIsOnlyNeededForBytes) {
  for (const auto opcode : {read_request, write_only}) {
    arrive({opcode, 0, 0}, psn++, 0xdead00);
    network.run();
  }
  EXPECT_EQ(qb.state(), IBV_QPS_RTS);
  EXPECT_THAT(numbers_of_messages(), ElementsAre(1, 2));
  for (const Part& part : {Part{read_request, 0, 1}, Part{write_only, 1, 1}, Part{fetch_add, 0},
                           Part{atomic_write, 8, 8}}) {
    connect_again(agreed());
    arrive(part, psn++, 0xdead00);
    expect_refused(Aeth::kRemoteAccessError);
  }
}

TEST_F(ForeignPacketsTest, ARegionMayGoDuringAMessage) {
  arrive({{write_first, 1024, 2048}});
  network.run();
  ASSERT_TRUE(b.hca.memory().remove(b.all.key));
  arrive({{write_last, 1024}});
  expect_refused(Aeth::kRemoteAccessError);
}

TEST_F(ForeignPacketsTest, AQueuePairPermitsEachKindOfAccess) {
  struct Row {
    Part part;
    unsigned access;
  };
  for (const auto& [part, access] : {Row{{write_only, 4, 4}, IBV_ACCESS_REMOTE_WRITE},
                                     Row{{read_request, 0, 4}, IBV_ACCESS_REMOTE_READ},
                                     Row{{fetch_add, 0}, IBV_ACCESS_REMOTE_ATOMIC},
                                     Row{{atomic_write, 8, 8}, IBV_ACCESS_REMOTE_WRITE}}) {
    SCOPED_TRACE(int(part.opcode));
    auto with = agreed();
    with.qp_access_flags = access;
    connect_again(with);
    arrive({part});
    EXPECT_EQ(qb.state(), IBV_QPS_RTS);
    with.qp_access_flags = kAllAccess & ~access;
    connect_again(with);
    arrive({part});
    expect_refused(Aeth::kInvalidRequest);
  }
}

TEST_F(ForeignPacketsTest, NoMoreReadsAndAtomicOperationsThanWereAgreed) {
  for (const Part& part :
       {Part{read_request, 0, 8}, Part{compare_swap, 0}, Part{atomic_write, 8, 8}}) {
    SCOPED_TRACE(int(part.opcode));
    auto three = agreed();
    three.max_dest_rd_atomic = 3;
    connect_again(three);
    arrive({part, part, part});
    EXPECT_EQ(qb.state(), IBV_QPS_RTS);
    network.run();
    EXPECT_EQ(responses.size(), 3U);
    arrive({part, part, part, part});
    expect_refused(Aeth::kInvalidRequest);
    EXPECT_EQ(responses.size(), 7U) << "three more have been executed";
  }
}

/// A repeated READ that may no longer be executed is neither refused nor answered.
TEST_F(ForeignPacketsTest, AReadThatComesAgainIsCheckedAgain) {
  const auto huge = *b.hca.register_memory(*b.pd, b.area.data(), std::uint64_t{kMaxMessage} + 1,
                                           b.address(0), kAllAccess);
  arrive({{read_request, 0, 8}});
  arrive({read_request, 0, 8}, 0, b.all.key);
  network.run();
  EXPECT_EQ(responses.size(), 2U);
  responses.clear();
  arrive({read_request, 0, 8}, 0, 0xdead00);
  arrive({read_request, 0, kMaxMessage + 1}, 0, huge.key);
  auto attr = agreed();
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  ASSERT_TRUE(b.hca.modify(qb, attr, IBV_QP_ACCESS_FLAGS));
  arrive({read_request, 0, 8}, 0, b.all.key);
  network.run();
  EXPECT_THAT(responses, IsEmpty());
  EXPECT_EQ(qb.state(), IBV_QPS_RTS);
}

TEST_F(ForeignPacketsTest, TheNumberOfOwedResponsesIsBounded) {
  for (const Part& part :
       {Part{read_request, 0, 8}, Part{fetch_add, 0}, Part{atomic_write, 8, 8}}) {
    connect_again(agreed());
    arrive({part});
    for (std::size_t i = 0; i < 2 * ReceiveWindow::kMaxResponses; ++i) arrive(part, 0, b.all.key);
    network.run();
    EXPECT_EQ(responses.size(), ReceiveWindow::kMaxResponses);
  }
}

TEST_F(ForeignPacketsTest, ResultsOfTheLastAtomicOperationsAreKnown) {
  for (std::size_t i = 0; i <= kMaxReads; ++i) {
    arrive({{fetch_add, 0}});
    network.run();
  }
  responses.clear();
  arrive({fetch_add, 0}, 0, b.all.key);
  network.run();
  EXPECT_THAT(responses, IsEmpty());
  arrive({fetch_add, 0}, 1, b.all.key);
  network.run();
  ASSERT_EQ(responses.size(), 1U);
  EXPECT_EQ(responses[0].bth.psn, Psn(kFirstPsn) + 1);
}

TEST_F(ForeignPacketsTest, ResponsesCountMessages) {
  const std::vector<Part> parts = {
      {write_only, 4, 4},   {read_request, 0, 4},      {fetch_add, 0},
      {atomic_write, 8, 8}, {write_first, 1024, 1025}, {write_last, 1}};
  for (const auto& part : parts) {
    arrive({part});
    network.run();
  }
  EXPECT_THAT(numbers_of_messages(), ElementsAre(1, 2, 3, 4, 4, 5));
}

TEST_F(ForeignPacketsTest, AfterResetTheResponderKnowsNothingOfTheOldConnection) {
  ASSERT_EQ(b.post_receive(qb, 0, 5000), 0);
  arrive({{fetch_add, 0}, {send_first, 1024}});
  arrive({write_only, 4, 4}, 9, b.all.key);  // is refused as too early
  network.run();
  auto next = agreed();
  ++next.rq_psn;
  connect_again(next);
  arrive({fetch_add, 0}, 0, b.all.key);
  network.run();
  EXPECT_THAT(responses, IsEmpty()) << "it repeats no result";
  arrive({write_only, 4, 4}, 9, b.all.key);
  network.run();
  ASSERT_EQ(responses.size(), 1U);
  EXPECT_EQ(responses[0].aeth, (Aeth{Aeth::Kind::nak, Aeth::kSequenceError, 0}));
  arrive({write_only, 4, 4}, 1, b.all.key);
  network.run();
  EXPECT_EQ(responses.back().aeth, (Aeth{Aeth::Kind::ack, Aeth::kNoCredits, 1}));
}

// --- Responses -----------------------------------------------------------------------------------

/// `a` has sent a request, which `b` has not got.
class ForeignResponsesTest : public ConnectionTest {
 protected:
  using enum ConnectedOpcode;
  void send(ibv_wr_opcode opcode) {
    network.faults.loss = 1000;
    auto wr = remote(opcode, 0);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr = ConnectedHost::atomic(opcode, b.address(0), b.all.key, 1);
    }
    ASSERT_EQ(a.post(qa, wr, {a.part(0, 8)}), 0);
    ASSERT_TRUE(network.step());
  }
  void respond(ConnectedOpcode opcode, std::size_t payload, Aeth aeth = {}, std::uint32_t psn = 0) {
    auto response = packet(opcode, psn);
    std::swap(response.lrh.slid, response.lrh.dlid);
    response.bth.destination = qa.number();
    response.aeth = aeth;
    arrives(response, payload);
  }
};

TEST_F(ForeignResponsesTest, AResponseToSomethingElseEndsTheConnection) {
  struct Row {
    ibv_wr_opcode request;
    ConnectedOpcode response;
    std::size_t payload;
  };
  for (const auto& row :
       {Row{IBV_WR_RDMA_READ, atomic_acknowledge, 0}, Row{IBV_WR_RDMA_READ, read_response_only, 4},
        Row{IBV_WR_RDMA_READ, read_response_only, 12},
        Row{IBV_WR_ATOMIC_FETCH_AND_ADD, read_response_only, 8},
        Row{IBV_WR_ATOMIC_WRITE, read_response_only, 8},
        Row{IBV_WR_ATOMIC_WRITE, atomic_acknowledge, 0},
        Row{IBV_WR_RDMA_WRITE, read_response_only, 0}}) {
    SCOPED_TRACE(testing::Message() << row.request << ' ' << int(row.response));
    send(row.request);
    respond(row.response, row.payload);
    EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_BAD_RESP_ERR));
    EXPECT_EQ(qa.state(), IBV_QPS_ERR);
    reconnect();
  }
}

TEST_F(ForeignResponsesTest, ReservedOrUnsolicitedResponsesAreIgnored) {
  send(IBV_WR_RDMA_WRITE);
  respond(acknowledge, 0, {Aeth::Kind::nak, 4, 0});
  respond(acknowledge, 0, {Aeth::Kind::reserved, Aeth::kRemoteAccessError, 0});
  respond(acknowledge, 0, {Aeth::Kind::nak, Aeth::kRemoteAccessError, 0}, 1);
  respond(acknowledge, 0, {}, 1);
  respond(acknowledge, 0, {}, ~0U);
  respond(read_response_only, 8, {}, 1);
  EXPECT_THAT(a.poll(), IsEmpty());
  EXPECT_EQ(qa.state(), IBV_QPS_RTS);
  respond(acknowledge, 0);
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
}

TEST_F(ForeignResponsesTest, ARepeatedRnrNakIsNoFurtherRetry) {
  reset();
  auto with = a.connected_attributes(qb.number(), 6);
  with.rnr_retry = 1;
  a.connect(qa, with);
  send(IBV_WR_SEND);
  for (int i = 0; i < 2; ++i) respond(acknowledge, 0, {Aeth::Kind::rnr_nak, 12, 0});
  EXPECT_THAT(a.poll(), IsEmpty());
}

TEST_F(ForeignResponsesTest, ARefusalAcknowledgesEarlierRequests) {
  send(IBV_WR_RDMA_WRITE);
  send(IBV_WR_RDMA_WRITE);
  respond(acknowledge, 0, {Aeth::Kind::nak, Aeth::kRemoteOperationError, 0}, 1);
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS, IBV_WC_REM_OP_ERR));
}

}  // namespace
}  // namespace softib::hca
