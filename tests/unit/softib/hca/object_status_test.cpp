// What an HCA tells of its objects.
#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class ObjectStatusTest : public HcaTest {
 protected:
  [[nodiscard]] std::vector<ObjectStatus> list(ObjectKind kind, std::uint32_t first = 0) const {
    return a.hca.objects({kind, first}).objects;
  }
};

TEST_F(ObjectStatusTest, DomainsQueuesAndMemory) {
  auto& second = **a.hca.create_protection_domain();
  const auto region = *a.hca.register_memory(second, a.memory.data(), 100, 0, 0);
  ASSERT_TRUE(a.hca.memory().add_window(second, IBV_MW_TYPE_1));
  const auto domains = list(ObjectKind::protection_domain);
  ASSERT_THAT(domains, SizeIs(2));
  EXPECT_EQ(domains[0], (ObjectStatus{.number = 0, .users = 1}));
  EXPECT_EQ(domains[1], (ObjectStatus{.number = 1, .users = 2}));
  const auto regions = list(ObjectKind::memory_region);
  ASSERT_THAT(regions, SizeIs(2)) << "without windows";
  EXPECT_EQ(
      regions[1],
      (ObjectStatus{.number = (region.key >> 8) - 1, .domain = second.handle, .length = 100}));
  (void)a.make_qp();
  const auto queues = list(ObjectKind::completion_queue);
  ASSERT_THAT(queues, SizeIs(1));
  EXPECT_EQ(queues[0], (ObjectStatus{.number = 0, .users = 2, .capacity = a.cq->capacity()}));
  EXPECT_THAT(list(ObjectKind::completion_queue, 1), IsEmpty());
  EXPECT_THAT(list(ObjectKind::context), IsEmpty()) << "they are not of the model";
}

TEST_F(ObjectStatusTest, QueuePairs) {
  const auto& qp = a.make_qp(IBV_QPS_RTS);
  auto config = a.config();
  config.pd = *a.hca.create_protection_domain();
  config.type = IBV_QPT_RC;
  auto& connected = **a.hca.create_queue_pair(config);
  const auto created = list(ObjectKind::queue_pair);
  ASSERT_THAT(created, SizeIs(2));
  EXPECT_EQ(created[0], (ObjectStatus{.number = qp.number().value(),
                                      .send_psn = 100,
                                      .type = IBV_QPT_UD,
                                      .state = IBV_QPS_RTS,
                                      .port = 1}));
  EXPECT_EQ(created[1],
            (ObjectStatus{.number = connected.number().value(), .domain = 1, .type = IBV_QPT_RC}));
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  ASSERT_TRUE(a.hca.modify(connected, attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  attr.qp_state = IBV_QPS_RTR;
  attr.ah_attr.dlid = 6;
  attr.ah_attr.port_num = 1;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 0x77;
  attr.rq_psn = 9;
  ASSERT_TRUE(a.hca.modify(connected, attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
  const auto now = list(ObjectKind::queue_pair, QpnLayout::index(connected.number()));
  ASSERT_THAT(now, SizeIs(1));
  EXPECT_EQ(now[0], (ObjectStatus{.number = connected.number().value(),
                                  .domain = 1,
                                  .remote_qpn = 0x77,
                                  .receive_psn = 9,
                                  .type = IBV_QPT_RC,
                                  .state = IBV_QPS_RTR,
                                  .port = 1}));
}

TEST_F(ObjectStatusTest, SharedReceiveQueuesAndQueuePairsOfXrc) {
  auto& shared = a.hca.shared_receives();
  const auto& plain = **shared.create({.pd = a.pd, .attributes = {1, 1, 0}});
  auto& domain = **shared.open_domain();
  const auto& extended =
      **shared.create({.pd = a.pd, .attributes = {1, 1, 0}, .domain = &domain, .cq = a.cq});
  const auto queues = list(ObjectKind::shared_receive_queue);
  ASSERT_THAT(queues, SizeIs(2));
  EXPECT_EQ(queues[0], (ObjectStatus{.number = plain.number, .type = IBV_SRQT_BASIC}));
  EXPECT_EQ(queues[1], (ObjectStatus{.number = extended.number, .type = IBV_SRQT_XRC}));
  const auto& target = **a.hca.create_queue_pair({.domain = &domain, .type = IBV_QPT_XRC_RECV});
  const auto pairs = list(ObjectKind::queue_pair);
  ASSERT_THAT(pairs, SizeIs(1));
  EXPECT_EQ(pairs[0], (ObjectStatus{.number = target.number().value(), .type = IBV_QPT_XRC_RECV}));
}

}  // namespace
}  // namespace softib::hca
