// Queue pairs that the operator lets fail: what the program and the peer notice.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Lets a queue pair of an HCA fail, or all of them.
void let_fail(Hca& hca, Qpn qpn = Qpn()) {
  auto port = hca.ports()[1];
  port.qp_errors.add(qpn);
  hca.set_port(port);
}

/// The asynchronous events, by queue pair.
std::vector<std::pair<ibv_event_type, Qpn>> take_events(Hca& hca) {
  std::vector<std::pair<ibv_event_type, Qpn>> out;
  for (const auto& event : hca.events()) {
    const auto* const async = std::get_if<AsyncEvent>(&event);
    if (async != nullptr) {
      out.emplace_back(async->type, async->qp != nullptr ? async->qp->number() : Qpn());
    }
  }
  hca.clear_events();
  return out;
}

class QpErrorsTest : public ConnectionTest {
 protected:
  std::vector<std::uint64_t> ids(Host& host) {
    std::vector<std::uint64_t> out;
    completions_ = host.poll();
    for (const auto& wc : completions_) out.push_back(wc.wr_id);
    return out;
  }
  std::vector<ibv_wc> completions_;
};

TEST_F(QpErrorsTest, FlushesTheWorkRequestsInOrderAfterAFatalEvent) {
  network.is_lost = [](const ConnectedPacket&) { return true; };
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 5000)}, id, 0), 0);
  }
  for (std::uint64_t id = 11; id <= 13; ++id) ASSERT_EQ(a.post_receive(qa, 0, 100, id), 0);
  ASSERT_TRUE(network.step());  // some packets are under way
  (void)take_events(a.hca);
  let_fail(a.hca, qa.number());
  EXPECT_EQ(qa.state(), IBV_QPS_ERR);
  EXPECT_THAT(take_events(a.hca), ElementsAre(std::pair(IBV_EVENT_QP_FATAL, qa.number())));
  EXPECT_THAT(ids(a), testing::UnorderedElementsAre(1, 2, 3, 11, 12, 13));
  for (const auto& wc : completions_) EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  const auto is_send = [](const ibv_wc& wc) { return wc.wr_id < 10; };
  EXPECT_TRUE(std::ranges::is_sorted(completions_, [&](const auto& x, const auto& y) {
    return is_send(x) == is_send(y) && x.wr_id < y.wr_id;
  }));
  EXPECT_EQ(a.hca.counters().at(1).qp_errors, 1U);
}

TEST_F(QpErrorsTest, ThePeerOfAReliableConnectionGetsARetryError) {
  let_fail(b.hca, qb.number());
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 100)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(qa.state(), IBV_QPS_ERR);
}

TEST_F(QpErrorsTest, ResponsesThatAreOwedAreNotSent) {
  network.room = 0;  // so that the response of the READ waits
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_READ, 0), {a.part(0, 100)}), 0);
  std::vector<std::uint8_t> request;
  network.room = 1000;
  network.on_packet = [&](const ConnectedPacket& packet) {
    if (packet.opcode == ipoib::wire::ConnectedOpcode::read_request) network.room = 0;
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(network.step());
  let_fail(b.hca);
  network.on_packet = {};
  network.room = 1000;
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_RETRY_EXC_ERR));
}

TEST_F(QpErrorsTest, OthersAreNotConcerned) {
  let_fail(a.hca, Qpn(qa.number().value() + 1));
  EXPECT_EQ(qa.state(), IBV_QPS_RTS);
  EXPECT_THAT(take_events(a.hca), IsEmpty());
}

TEST_F(QpErrorsTest, WithoutANumberAllFailOnce) {
  auto& datagrams = a.make_qp();
  auto& in_reset = a.make_qp(IBV_QPS_RESET);
  ASSERT_EQ(a.post_receive(datagrams, 0, 100), 0);
  let_fail(a.hca);
  EXPECT_EQ(datagrams.state(), IBV_QPS_ERR);
  EXPECT_EQ(qa.state(), IBV_QPS_ERR);
  EXPECT_EQ(in_reset.state(), IBV_QPS_RESET);
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_WR_FLUSH_ERR));
  EXPECT_THAT(take_events(a.hca),
              testing::UnorderedElementsAre(std::pair(IBV_EVENT_QP_FATAL, qa.number()),
                                            std::pair(IBV_EVENT_QP_FATAL, datagrams.number())));
  let_fail(a.hca);
  EXPECT_THAT(take_events(a.hca), IsEmpty()) << "they are in error already";
  EXPECT_EQ(a.hca.counters().at(1).qp_errors, 2U);
}

TEST_F(QpErrorsTest, AfterwardsItCanBeUsedAgain) {
  let_fail(a.hca);
  let_fail(b.hca);
  a.modify(qa, IBV_QPS_RESET);
  b.modify(qb, IBV_QPS_RESET);
  connect();
  ASSERT_EQ(a.post(qa, remote(IBV_WR_RDMA_WRITE, 0), {a.part(0, 100)}), 0);
  network.run();
  EXPECT_THAT(statuses(a.poll()), ElementsAre(IBV_WC_SUCCESS));
}

TEST_F(QpErrorsTest, AProcessThatAttachesLaterIsNotConcerned) {
  auto port = make_port(7);
  port.qp_errors.add(Qpn());
  Hca later(1, 0, HcaPorts(port));
  auto* const cq = *later.create_completion_queue(4);
  auto& qp = **later.create_queue_pair({.pd = *later.create_protection_domain(),
                                        .send_cq = cq,
                                        .receive_cq = cq,
                                        .cap = {1, 1, 1, 1, 0}});
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  ASSERT_TRUE(later.modify(qp, attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY));
  port.mtu = 5;
  later.set_port(port);
  EXPECT_EQ(qp.state(), IBV_QPS_INIT);
}

}  // namespace
}  // namespace softib::hca
