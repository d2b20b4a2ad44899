#include <gmock/gmock.h>

#include <set>

#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

using HcaObjectsTest = HcaTest;

TEST_F(HcaObjectsTest, ObjectsInUseCannotBeDestroyed) {
  Host host(7);
  EXPECT_EQ(host.hca.destroy(*host.pd).error().code, EBUSY);  // the memory region
  ASSERT_TRUE(host.hca.memory().remove(host.region.key));
  auto& ah = host.handle(5);
  EXPECT_EQ(host.hca.destroy(*host.pd).error().code, EBUSY);
  ASSERT_TRUE(host.hca.destroy(ah));
  auto config = host.config();
  config.receive_cq = *host.hca.create_completion_queue(16);
  auto& qp = host.make_qp(IBV_QPS_RTS, config);
  EXPECT_EQ(host.hca.destroy(*host.pd).error().code, EBUSY);
  EXPECT_EQ(host.hca.destroy(*config.send_cq).error().code, EBUSY);
  EXPECT_EQ(host.hca.destroy(*config.receive_cq).error().code, EBUSY);
  ASSERT_TRUE(host.hca.destroy(qp));
  EXPECT_TRUE(host.hca.destroy(*host.pd));
  EXPECT_TRUE(host.hca.destroy(*config.send_cq));
  EXPECT_TRUE(host.hca.destroy(*config.receive_cq));
}

/// The limit is one of each HCA, so more HCAs have more.
template <class Made>
void expect_limit(const Made& made, std::uint32_t limit) {
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ENOMEM);
  EXPECT_THAT(made.error().message, testing::HasSubstr("can have " + std::to_string(limit) + ' '));
  EXPECT_THAT(made.error().message, testing::HasSubstr("softib run --hca A,B"));
}

TEST_F(HcaObjectsTest, NumbersContainSlotAndEpochAndAreReusedLate) {
  Hca hca(3, 9, HcaPorts(make_port(5)));
  auto& pd = **hca.create_protection_domain();
  const Qpn shared((*hca.shared_receives().create({.pd = &pd, .attributes = {1, 1, 0}}))->number);
  EXPECT_EQ(QpnLayout::epoch(shared), 3U);
  EXPECT_EQ(QpnLayout::slot(shared), 9U);
  auto& cq = **hca.create_completion_queue(1);
  const QueuePairConfig config{.pd = &pd, .send_cq = &cq, .receive_cq = &cq};
  std::set<Qpn> seen;
  for (std::uint32_t i = 0; i < kMaxQueuePairs; ++i) {
    auto& qp = **hca.create_queue_pair(config);
    EXPECT_EQ(QpnLayout::epoch(qp.number()), 3U);
    EXPECT_EQ(QpnLayout::slot(qp.number()), 9U);
    EXPECT_TRUE(seen.insert(qp.number()).second);
    ASSERT_TRUE(hca.destroy(qp));
  }
  EXPECT_FALSE(seen.insert((*hca.create_queue_pair(config))->number()).second);
}

TEST_F(HcaObjectsTest, QueuePairsAreBounded) {
  auto& pd = **a.hca.create_protection_domain();
  const QueuePairConfig config{.pd = &pd, .send_cq = a.cq, .receive_cq = a.cq};
  for (std::uint32_t i = 0; i < kMaxQueuePairs; ++i) ASSERT_TRUE(a.hca.create_queue_pair(config));
  expect_limit(a.hca.create_queue_pair(config), kMaxQueuePairs);
}

TEST_F(HcaObjectsTest, CapabilitiesBeyondTheLimitsAreRefused) {
  const auto refused = [&](auto change) {
    auto config = a.config();
    change(config);
    const auto made = a.hca.create_queue_pair(config);
    return made.has_error() && made.error().code == EINVAL;
  };
  EXPECT_TRUE(refused([](auto& c) { c.cap.max_send_wr = kMaxQueueWr + 1; }));
  EXPECT_TRUE(refused([](auto& c) { c.cap.max_recv_wr = kMaxQueueWr + 1; }));
  EXPECT_TRUE(refused([](auto& c) { c.cap.max_send_sge = kMaxSge + 1; }));
  EXPECT_TRUE(refused([](auto& c) { c.cap.max_recv_sge = kMaxSge + 1; }));
  EXPECT_TRUE(refused([](auto& c) { c.cap.max_inline_data = kMaxInline + 1; }));
  EXPECT_TRUE(refused([](auto& c) { c.pd = nullptr; }));
  EXPECT_TRUE(refused([](auto& c) { c.send_cq = nullptr; }));
  EXPECT_TRUE(refused([](auto& c) { c.receive_cq = nullptr; }));
  EXPECT_TRUE(refused([](auto& c) { c.max_tso_header = kMaxTsoHeader + 1; }));
  EXPECT_FALSE(refused([](auto& c) {
    c.cap = {kMaxQueueWr, kMaxQueueWr, kMaxSge, kMaxSge, kMaxInline};
    c.max_tso_header = kMaxTsoHeader;
  }));
}

/// As other adapters grant them, so programs that are not exact work.
TEST_F(HcaObjectsTest, CapabilitiesMayBeLargerThanTheWantedOnes) {
  auto config = a.config();
  config.cap.max_inline_data = 0;
  config.cap.max_send_sge = 2;
  EXPECT_EQ(a.make_qp(IBV_QPS_INIT, config).config().cap.max_inline_data, 32U);
  config.cap.max_inline_data = 100;
  EXPECT_EQ(a.make_qp(IBV_QPS_INIT, config).config().cap.max_inline_data, 100U);
  config.cap.max_inline_data = config.cap.max_send_wr = 0;
  EXPECT_EQ(a.make_qp(IBV_QPS_INIT, config).config().cap.max_inline_data, 0U);
  EXPECT_EQ((*a.hca.create_completion_queue(8))->capacity(), 15U);
  auto& cq = **a.hca.create_completion_queue(7);
  EXPECT_EQ(cq.capacity(), 7U);
  ASSERT_TRUE(a.hca.resize(cq, 100));
  EXPECT_EQ(cq.capacity(), 127U);
}

TEST_F(HcaObjectsTest, QueuesOfSizeZeroRefuseRequests) {
  auto config = a.config();
  config.cap = {};
  auto& qp = a.make_qp(IBV_QPS_RTS, config);
  EXPECT_EQ(a.receive_into(qp, 0, 64), EINVAL);  // max_recv_sge is 0
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(a.hca.post_receive(qp, &wr, &bad), ENOMEM);
}

TEST_F(HcaObjectsTest, CompletionQueueSizes) {
  EXPECT_EQ(a.hca.create_completion_queue(0).error().code, EINVAL);
  EXPECT_EQ(a.hca.create_completion_queue(kMaxCqe + 1).error().code, EINVAL);
  EXPECT_EQ(a.hca.resize(*a.cq, 0).error().code, EINVAL);
  EXPECT_EQ(a.hca.resize(*a.cq, kMaxCqe + 1).error().code, EINVAL);
  EXPECT_TRUE(a.hca.resize(*a.cq, 5));
}

TEST_F(HcaObjectsTest, CompletionQueuesAreBounded) {
  Hca hca(1, 0, HcaPorts(make_port(5)));
  for (std::uint32_t i = 0; i < kMaxCompletionQueues; ++i) {
    ASSERT_TRUE(hca.create_completion_queue(1));
  }
  expect_limit(hca.create_completion_queue(1), kMaxCompletionQueues);
}

TEST_F(HcaObjectsTest, ProtectionDomainsAreBounded) {
  Hca hca(1, 0, HcaPorts(make_port(5)));
  for (std::uint32_t i = 0; i < kMaxProtectionDomains; ++i) {
    ASSERT_TRUE(hca.create_protection_domain());
  }
  expect_limit(hca.create_protection_domain(), kMaxProtectionDomains);
}

TEST_F(HcaObjectsTest, AddressHandlesAreCheckedAndBounded) {
  ibv_ah_attr attr{};
  attr.dlid = 6;
  EXPECT_EQ(a.hca.create_address_handle(*a.pd, attr).error().code, EINVAL);  // no port
  attr.port_num = 1;
  attr.is_global = 1;
  attr.grh.sgid_index = 1;
  EXPECT_EQ(a.hca.create_address_handle(*a.pd, attr).error().code, EINVAL);
  attr.grh.sgid_index = 0;
  for (std::uint32_t i = 0; i < kMaxAddressHandles; ++i) {
    ASSERT_TRUE(a.hca.create_address_handle(*a.pd, attr));
  }
  expect_limit(a.hca.create_address_handle(*a.pd, attr), kMaxAddressHandles);
}

/// The same rules as in rdma_check_ah_attr() of the kernel.
TEST_F(HcaObjectsTest, PortMayRequireAGrhInAddressHandles) {
  auto port = a.hca.ports()[1];
  port.grh_required = true;
  a.hca.set_port(port);
  ibv_ah_attr attr{};
  attr.dlid = 6;
  attr.port_num = 1;
  EXPECT_EQ(a.hca.create_address_handle(*a.pd, attr).error().code, EINVAL);
  attr.is_global = 1;
  EXPECT_TRUE(a.hca.create_address_handle(*a.pd, attr));
}

TEST_F(HcaObjectsTest, ReceivesOfADestroyedQueuePairAreDiscarded) {
  auto config = a.config();
  config.receive_cq = *a.hca.create_completion_queue(16);
  auto& qp = a.make_qp(IBV_QPS_RTS, config);
  ASSERT_EQ(a.receive_into(qp, 0, 100), 0);
  a.modify(qp, IBV_QPS_ERR);
  EXPECT_FALSE(config.receive_cq->idle());
  ASSERT_TRUE(a.hca.destroy(qp));
  EXPECT_TRUE(config.receive_cq->idle());
}

TEST_F(HcaObjectsTest, CompletionsOfADestroyedQueuePairAreDiscarded) {
  auto& qp = a.make_qp();
  auto& other = a.make_qp();
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), Qpn(0x10000), sge);
  ASSERT_EQ(a.send(qp, wr, sink), 0);
  ASSERT_EQ(a.send(other, wr, sink), 0);
  ASSERT_TRUE(a.hca.destroy(qp));
  const auto wc = a.poll();
  ASSERT_EQ(wc.size(), 1U);
  EXPECT_EQ(wc[0].qp_num, other.number().value());
}

}  // namespace
}  // namespace softib::hca
