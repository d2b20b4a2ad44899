// The transitions of ibv_modify_qp(3), and the effects of states on work requests.
#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

constexpr std::array kStates = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

struct Row {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int allowed;
};
constexpr int kInitBits = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
const std::vector<Row> kRows = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitBits, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kInitBits},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};
constexpr int kConnectedInitBits = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRcReadyBits = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
const std::vector<Row> kRcRows = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kConnectedInitBits, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kConnectedInitBits},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
     kRcReadyBits},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kRcReadyBits},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kRcReadyBits},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     kRcReadyBits | kConnectedInitBits | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC},
};

constexpr int kUcReadyBits = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS;
const std::vector<Row> kUcRows = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kConnectedInitBits, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kConnectedInitBits},
    {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, kUcReadyBits},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kUcReadyBits},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kUcReadyBits},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, kUcReadyBits},
};

/// Tries a transition with each attribute added or removed.
void check_transition(const std::vector<Row>& rows, ibv_qp_type type, ibv_qp_state from,
                      ibv_qp_state to) {
  const auto row = std::ranges::find_if(
      rows, [&](const Row& each) { return each.from == from && each.to == to; });
  const bool found = row != rows.end();
  const bool possible = to == IBV_QPS_RESET || to == IBV_QPS_ERR || found;
  const int required = found ? row->required : 0;
  const int allowed = found ? row->allowed : 0;
  EXPECT_EQ(is_transition(type, from, to, IBV_QP_STATE | required), possible) << from << to;
  EXPECT_EQ(is_transition(type, from, to, IBV_QP_STATE | required | allowed), possible);
  for (int bit = 1; bit < 26; ++bit) {
    const int attribute = 1 << bit;
    const bool known = ((required | allowed) & attribute) != 0;
    EXPECT_EQ(is_transition(type, from, to, IBV_QP_STATE | required | attribute), possible && known)
        << from << " to " << to << " with bit " << bit;
    if ((required & attribute) != 0) {
      EXPECT_FALSE(is_transition(type, from, to, (IBV_QP_STATE | required) & ~attribute));
    }
  }
}

TEST(QueuePairStates, EachTransitionChecksItsAttributes) {
  for (const auto from : kStates) {
    for (const auto to : kStates) {
      check_transition(kRows, IBV_QPT_UD, from, to);
      check_transition(kRcRows, IBV_QPT_RC, from, to);
      check_transition(kUcRows, IBV_QPT_UC, from, to);
    }
  }
}

using QueuePairStatesTest = HcaTest;

TEST_F(QueuePairStatesTest, ValuesAreChecked) {
  auto& qp = a.make_qp(IBV_QPS_RESET);
  auto attr = attributes(IBV_QPS_INIT);
  attr.port_num = 2;
  EXPECT_EQ(a.hca.modify(qp, attr, kToInit).error().code, EINVAL);
  attr = attributes(IBV_QPS_INIT);
  attr.pkey_index = kPKeyTableSize;
  EXPECT_EQ(a.hca.modify(qp, attr, kToInit).error().code, EINVAL);
  EXPECT_EQ(qp.state(), IBV_QPS_RESET);
  EXPECT_TRUE(a.hca.modify(qp, attributes(IBV_QPS_INIT), kToInit));
}

TEST_F(QueuePairStatesTest, CurQpStateMustMatch) {
  auto& qp = a.make_qp(IBV_QPS_RTS);
  auto attr = attributes(IBV_QPS_RTS);
  attr.cur_qp_state = IBV_QPS_SQE;
  EXPECT_FALSE(a.hca.modify(qp, attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
  attr.cur_qp_state = IBV_QPS_RTS;
  EXPECT_TRUE(a.hca.modify(qp, attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
}

TEST_F(QueuePairStatesTest, QueryReturnsTheAttributes) {
  auto& qp = a.make_qp(IBV_QPS_RTS, a.config(), 1);
  auto attr = qp.attributes();
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.qkey, kQKey);
  EXPECT_EQ(attr.pkey_index, 1);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.sq_psn, 100U);
  EXPECT_EQ(attr.cap.max_inline_data, 256U);

  attr.qkey = 0x1234;
  ASSERT_TRUE(a.hca.modify(qp, attr, IBV_QP_QKEY));
  EXPECT_EQ(qp.attributes().qkey, 0x1234U);
}

TEST_F(QueuePairStatesTest, AcceptsSendsFromRtsAndReceivesFromInit) {
  auto sge = a.element(0, 64);
  for (const auto state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD}) {
    auto& qp = a.make_qp(state);
    auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
    EXPECT_EQ(a.send(qp, wr, sink), state >= IBV_QPS_RTS ? 0 : EINVAL) << state;
    EXPECT_EQ(a.receive_into(qp, 0, 64), state >= IBV_QPS_INIT ? 0 : EINVAL) << state;
  }
}

TEST_F(QueuePairStatesTest, ReceivesPacketsFromRtrOn) {
  for (const auto state : kStates) {
    if (state == IBV_QPS_SQE) continue;  // modify() cannot reach it
    auto& qp = b.make_qp(state);
    const bool receives = state >= IBV_QPS_RTR && state != IBV_QPS_ERR;
    if (receives) {
      ASSERT_EQ(b.receive_into(qp, 0, 100), 0);
    }
    const auto before = b.hca.counters().at(1).drop_qp_state;
    auto sge = a.element(0, 4);
    auto wr = a.send_request(a.handle(6), qp.number(), sge);
    ASSERT_EQ(a.send(a.make_qp(), wr, sink), 0);
    deliver();
    EXPECT_EQ(b.poll().size(), receives ? 1U : 0U) << state;
    EXPECT_EQ(b.hca.counters().at(1).drop_qp_state - before, receives ? 0U : 1U) << state;
  }
}

TEST_F(QueuePairStatesTest, ErrorFlushesBothQueuesAndLaterRequests) {
  auto& qp = a.make_qp(IBV_QPS_SQD);
  auto sge = a.element(0, 64);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  wr.send_flags = 0;
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  ASSERT_EQ(a.receive_into(qp, 0, 64), 0);
  a.modify(qp, IBV_QPS_ERR);
  ASSERT_EQ(a.receive_into(qp, 0, 64), 0);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  const auto wc = a.poll();
  ASSERT_EQ(wc.size(), 4U);
  for (const auto& each : wc) EXPECT_EQ(each.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(wc[1].opcode, IBV_WC_SEND);
  EXPECT_TRUE(sink.packets.empty());
}

TEST_F(QueuePairStatesTest, ResetDiscardsRequestsCompletionsAndAttributes) {
  auto& qp = a.make_qp(IBV_QPS_RTS, a.config(), 1);
  auto notifying = attributes(IBV_QPS_SQD);
  notifying.en_sqd_async_notify = 1;
  ASSERT_TRUE(a.hca.modify(qp, notifying, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
  a.modify(qp, IBV_QPS_RTS);
  auto sge = a.element(0, 64);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  ASSERT_EQ(a.receive_into(qp, 0, 64), 0);
  a.modify(qp, IBV_QPS_RESET);
  EXPECT_TRUE(a.poll().empty());
  EXPECT_EQ(qp.attributes().qkey, 0U);
  EXPECT_EQ(qp.attributes().pkey_index, 0);
  EXPECT_EQ(qp.attributes().port_num, 0);
  EXPECT_EQ(qp.attributes().sq_psn, 0U);
  EXPECT_EQ(qp.attributes().en_sqd_async_notify, 0);
  // The queues are empty, so all of their entries are free.
  a.bring(qp, IBV_QPS_RTS);
  for (std::uint32_t i = 0; i < kQueue; ++i) EXPECT_EQ(a.receive_into(qp, 0, 64), 0);
  for (std::uint32_t i = 0; i < kQueue; ++i) EXPECT_EQ(a.send(qp, wr, sink), 0);
}

TEST_F(QueuePairStatesTest, DrainedSendQueueRaisesRequestedEventAndKeepsSends) {
  auto& qp = a.make_qp();
  a.modify(qp, IBV_QPS_SQD);
  EXPECT_TRUE(a.hca.events().empty());
  a.modify(qp, IBV_QPS_RTS);

  auto attr = attributes(IBV_QPS_SQD);
  attr.en_sqd_async_notify = 1;
  ASSERT_TRUE(a.hca.modify(qp, attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
  EXPECT_EQ(a.async_events(), std::vector<ibv_event_type>{IBV_EVENT_SQ_DRAINED});
  EXPECT_EQ(std::get<AsyncEvent>(a.hca.events()[0]).qp, &qp);
  a.hca.clear_events();
  a.modify(qp, IBV_QPS_SQD);
  EXPECT_TRUE(a.hca.events().empty()) << "it is drained already";

  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  EXPECT_TRUE(sink.packets.empty());
  a.modify(qp, IBV_QPS_RTS);
  transmit(a.hca, qp, sink);
  EXPECT_EQ(sink.packets.size(), 1U);
}

/// The queue pair goes into ERR while its batch is in flight.
TEST_F(QueuePairStatesTest, ErrorWhileSendingCompletesTheBatchFirst) {
  auto& qp = a.make_qp();
  ASSERT_EQ(a.receive_into(qp, 0, kGrh), 0);
  auto sge = a.element(0, 4);
  std::vector<ibv_send_wr> chain(kSendBatch + 1, a.send_request(a.handle(5), qp.number(), sge));
  for (std::size_t i = 0; i < kSendBatch; ++i) chain[i].next = &chain[i + 1];
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(a.hca.post_send(qp, chain.data(), &bad), 0);
  const auto batch = a.hca.next_packets(qp);
  ASSERT_EQ(batch.size(), kSendBatch);
  sink.send(batch);
  deliver();  // to the same queue pair, whose receive is too small
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
  EXPECT_TRUE(a.hca.next_packets(qp).empty());
  const auto wc = a.poll();
  ASSERT_EQ(wc.size(), 1 + kSendBatch + 1);
  EXPECT_EQ(wc[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc[kSendBatch].status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc[kSendBatch + 1].status, IBV_WC_WR_FLUSH_ERR);
}

}  // namespace
}  // namespace softib::hca
