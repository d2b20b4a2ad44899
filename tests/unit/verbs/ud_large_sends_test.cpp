// UdQueuePair leaves segmentation to a device that supports it (TSO), else does it itself.
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include "offload/flow.hpp"
#include "ud_queue_pair_fixture.hpp"
#include "verbs/receive_layout.hpp"

namespace ipoib::verbs {
namespace {

decltype(ibv_context_ops::post_send) real_post_send = nullptr;
decltype(verbs_context::create_qp_ex) real_create_qp = nullptr;
decltype(verbs_context::query_device_ex) real_query_device = nullptr;
std::size_t large_sends = 0;  ///< posted sends with IBV_WR_TSO
std::size_t all_sends = 0;
std::size_t checksum_sends = 0;  ///< whose checksum is left to the device

int count_sends(ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
  for (auto* work = chain; work != nullptr; work = work->next) {
    ++all_sends;
    if (work->opcode == IBV_WR_TSO) ++large_sends;
    if ((work->send_flags & IBV_SEND_IP_CSUM) != 0) ++checksum_sends;
  }
  return real_post_send(qp, chain, refused);
}

/// Replaces verbs of the device to simulate devices with and without working TSO.
class UdLargeSendsTest : public UdQueuePairTest {
 protected:
  void SetUp() override {
    UdQueuePairTest::SetUp();
    real_post_send = post_send();
    real_create_qp = verbs().create_qp_ex;
    real_query_device = verbs().query_device_ex;
    ibv_device_attr_ex attributes{};
    ASSERT_EQ(ibv_query_device_ex(device_->context(), nullptr, &attributes), 0);
    if (!ibv_is_qpt_supported(attributes.tso_caps.supported_qpts, IBV_QPT_UD)) {
      GTEST_SKIP() << "the device has no TSO";
    }
  }
  void TearDown() override {
    post_send() = real_post_send;
    verbs().create_qp_ex = real_create_qp;
    verbs().query_device_ex = real_query_device;
    UdQueuePairTest::TearDown();
  }
  decltype(ibv_context_ops::post_send)& post_send() { return device_->context()->ops.post_send; }
  verbs_context& verbs() { return *verbs_get_ctx(device_->context()); }

  /// Sends a packet with 3500 bytes of payload, checks that four valid segments arrive, and returns
  /// the number of posted sends.
  std::size_t sends() {
    post_send() = count_sends;
    large_sends = all_sends = checksum_sends = 0;
    EXPECT_EQ(a_->send(large_tcp(to_b(4, 0), 3500)), 1U);
    const auto got = b_->receive(4);
    EXPECT_EQ(got.size(), 4U);
    for (const auto& each : got) {
      const auto ip = each.frame.bytes().subspan(wire::kEncapsulationSize);
      const auto flow = offload::parse_flow(ip, wire::upper_layer(ip));
      EXPECT_TRUE(flow && offload::can_coalesce(*flow));
    }
    EXPECT_EQ(a_->qp->counters().large_packets, 1U);
    EXPECT_EQ(a_->qp->counters().segments, 4U);
    EXPECT_FALSE(a_->qp->is_broken());
    a_->settle();
    return all_sends;
  }
  /// Sends a packet with 64000 bytes of payload, and returns what is received.
  std::vector<Incoming> received() {
    EXPECT_EQ(a_->send(large_tcp(a_->large(handle_, b_->qp->qpn()), 64000)), 1U);
    auto got = b_->receive(1);
    if (!got.empty() && !got[0].frame.is_large()) {
      for (auto& each : b_->receive(63)) got.push_back(std::move(each));
    }
    std::vector<Incoming> none;
    a_->qp->receive(none, 1);  // takes in send completions
    return got;
  }
  /// Retries, because on a busy machine a probe may time out.
  void make_sides_with_checksum_offload(const QueueDepths& depths) {
    make_sides(depths);
    for (int tries = 0; tries < 50 && !a_->qp->checksum_offload(); ++tries) make_sides(depths);
    ASSERT_TRUE(a_->qp->checksum_offload());
  }
};

TEST_F(UdLargeSendsTest, UsesTheTsoOfADeviceThatPassesTheProbe) {
  make_sides_with_checksum_offload({});
  EXPECT_EQ(sends(), 1U);
  EXPECT_EQ(large_sends, 1U);
}

TEST_F(UdLargeSendsTest, AreReceivedUnsegmentedIfTheDeviceSupportsThat) {
  if (dlsym(RTLD_DEFAULT, "softibdv_post_large_recv") == nullptr)
    GTEST_SKIP() << "the device has no large receives";
  make_sides_with_checksum_offload({});
  EXPECT_EQ(received().size(), 64U) << "segmented by default";
  b_->qp->enable_large_receives();
  b_->qp->restart().value();
  auto whole = large_tcp(a_->large(handle_, b_->qp->qpn()), 64000);
  const auto packet = whole.frame.bytes().subspan(wire::kEncapsulationSize);
  wire::emit_large_headers(packet, Segmentation::Kind::tcp, wire::Ipv4Header::kMinimumSize,
                           packet.size());
  for (std::size_t i = 0; i < 3 * kLargeReceives; ++i) {
    const auto got = received();
    ASSERT_EQ(got.size(), 1U) << i;
    EXPECT_TRUE(std::ranges::equal(got[0].frame.bytes(), std::as_const(whole.frame).bytes()));
    EXPECT_EQ(got[0].frame.segmentation(), whole.frame.segmentation());
  }
  b_->qp->bring_down().value();
  std::vector<Incoming> none;
  EXPECT_EQ(b_->qp->receive(none, 1), 0U);
  b_->qp->configure(b_->attributes).value();
  EXPECT_EQ(received().size(), 1U) << "also after it has been down";
}

TEST_F(UdLargeSendsTest, AreSegmentedWhileNoLargeReceiveIsFree) {
  if (dlsym(RTLD_DEFAULT, "softibdv_post_large_recv") == nullptr)
    GTEST_SKIP() << "the device has no large receives";
  make_sides_with_checksum_offload({});
  b_->qp->enable_large_receives();
  b_->qp->restart().value();
  std::vector<std::vector<Incoming>> kept;
  for (std::size_t i = 0; i < kLargeReceives; ++i) kept.push_back(received());
  EXPECT_EQ(received().size(), 64U);
  EXPECT_EQ(b_->qp->counters().receive_starved, 0U) << "no packet had to wait";
  kept.clear();
  EXPECT_EQ(received().size(), 1U);
  b_->qp->restart().value();
  for (std::size_t i = 0; i < kLargeReceives; ++i) {
    kept.push_back(received());
    EXPECT_EQ(kept.back().size(), 1U) << "all of them were free after the restart";
  }
}

TEST_F(UdLargeSendsTest, AreNotLargerThanTheDevicesLimit) {
  make_sides_with_checksum_offload({.max_tso = 3499});
  EXPECT_EQ(sends(), 4U);
  EXPECT_EQ(checksum_sends, 0U) << "the device has shown the checksums of large sends only";
  make_sides_with_checksum_offload({.max_tso = 3500});
  EXPECT_EQ(sends(), 1U);
}

/// With IPv4 options, the device would look for TCP in the wrong place.
TEST_F(UdLargeSendsTest, AreNotUsedForPacketsWithIpOptions) {
  make_sides_with_checksum_offload({});
  auto large = large_tcp(to_b(4, 0), 3500);
  auto how = large.frame.segmentation();
  constexpr std::size_t kOptions = 4;
  auto* const front = large.frame.bytes().data();
  large.frame.window(0, large.frame.size() + kOptions);
  std::copy_backward(front + how.transport, front + large.frame.size() - kOptions,
                     front + large.frame.size());
  std::fill_n(front + how.transport, kOptions, std::uint8_t{1});
  front[wire::kEncapsulationSize] = 0x46;
  how.transport = static_cast<std::uint16_t>(how.transport + kOptions);
  how.payload = static_cast<std::uint16_t>(how.payload + kOptions);
  large.frame.set_segmentation(how);
  post_send() = count_sends;
  large_sends = all_sends = 0;
  ASSERT_EQ(a_->send(std::move(large)), 1U);
  EXPECT_EQ(b_->receive(4).size(), 4U);
  EXPECT_EQ(all_sends, 4U);
  EXPECT_EQ(large_sends, 0U);
  a_->settle();
}

TEST_F(UdLargeSendsTest, AreNotUsedWithoutTheCapability) {
  verbs().query_device_ex = [](ibv_context* context, const ibv_query_device_ex_input* input,
                               ibv_device_attr_ex* attributes, std::size_t size) {
    const int error = real_query_device(context, input, attributes, size);
    attributes->tso_caps = {65536, 1U << IBV_QPT_RAW_PACKET};
    return error;
  };
  make_sides_with_checksum_offload({});
  EXPECT_EQ(sends(), 4U);
}

TEST_F(UdLargeSendsTest, AreNotUsedIfTheDeviceHasNoRoomForHeaders) {
  const auto without_room = [](ibv_context* context, ibv_qp_init_attr_ex* attributes) -> ibv_qp* {
    if ((attributes->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) == 0) {
      return real_create_qp(context, attributes);
    }
    errno = EINVAL;
    return nullptr;
  };
  verbs().create_qp_ex = without_room;
  make_sides_with_checksum_offload({});
  EXPECT_EQ(sends(), 4U);
  verbs().create_qp_ex = real_create_qp;
  make_sides_with_checksum_offload({});
  verbs().create_qp_ex = without_room;
  a_->qp->recreate().value();
  EXPECT_FALSE(a_->qp->checksum_offload()) << "another queue pair is probed again";
}

TEST_F(UdLargeSendsTest, AreNotUsedIfTheDeviceRefusesThem) {
  post_send() = [](ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
    *refused = chain;
    return chain->opcode == IBV_WR_TSO ? EINVAL : real_post_send(qp, chain, refused);
  };
  make_sides_with_checksum_offload({});
  EXPECT_EQ(sends(), 4U);
  expect_connected();
}

TEST_F(UdLargeSendsTest, AreNotUsedIfTheDeviceSegmentsIncorrectly) {
  post_send() = [](ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
    for (auto* work = chain; work != nullptr; work = work->next) {
      if (work->opcode == IBV_WR_TSO) work->send_flags &= ~unsigned{IBV_SEND_IP_CSUM};
    }
    return real_post_send(qp, chain, refused);
  };
  make_sides_with_checksum_offload({});
  EXPECT_EQ(sends(), 4U);
}

}  // namespace
}  // namespace ipoib::verbs
