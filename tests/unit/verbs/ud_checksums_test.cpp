// UdQueuePair leaves the checksums of segments to the device if that computes them, else computes
// them itself.
#include <dlfcn.h>

#include "offload/flow.hpp"
#include "ud_queue_pair_fixture.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"

namespace {
bool shows_checksum_capability = true;
}

/// Hides the device's checksum capability if a test asks for that.
extern "C" int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_query_device)>(dlsym(RTLD_NEXT, "ibv_query_device"));
  const int error = verb(context, attributes);
  if (!shows_checksum_capability) {
    attributes->device_cap_flags &= ~static_cast<unsigned>(IBV_DEVICE_UD_IP_CSUM);
  }
  return error;
}

namespace ipoib::verbs {
namespace {

/// On a busy machine a probe may time out.
constexpr int kTries = 50;

class UdChecksumsTest : public UdQueuePairTest {
 protected:
  [[nodiscard]] bool device_computes_checksums() const {
    ibv_device_attr attributes{};
    EXPECT_EQ(ibv_query_device(device_->context(), &attributes), 0);
    return (attributes.device_cap_flags & IBV_DEVICE_UD_IP_CSUM) != 0;
  }
};

/// Makes a large packet of UDP over IPv4: 3500 bytes of payload in segments of 1000.
Outgoing large_udp(Outgoing datagram) {
  constexpr std::uint16_t kTransport = wire::kEncapsulationSize + wire::Ipv4Header::kMinimumSize;
  constexpr std::uint16_t kHeaders = kTransport + wire::kUdpHeader;
  datagram.frame.window(0, kHeaders + 3500);
  ByteWriter writer(datagram.frame.bytes());
  writer.u32(0x08000000);
  writer.u32(0x45000000);
  writer.u32(0x00010000);
  writer.u32(0x40110000);
  writer.u32(0x0a000001);
  writer.u32(0x0a000002);
  writer.u32(0x12341388);
  // The checksum field starts with the sum of the pseudo-header.
  const auto partial = wire::InternetChecksum()
                           .add_pseudo_header(Ipv4Address({10, 0, 0, 1}),
                                              Ipv4Address({10, 0, 0, 2}), wire::kUdp, 3508)
                           .sum();
  writer.u16(3508);
  writer.u16(partial);
  datagram.frame.set_segmentation({Segmentation::Kind::udp, kTransport, kHeaders, 1000});
  return datagram;
}

/// Checks that all checksums are valid; returns how many datagrams the device reports as verified.
std::size_t verified_by_device(const std::vector<Incoming>& datagrams) {
  std::size_t count = 0;
  for (const auto& each : datagrams) {
    const auto ip = each.frame.bytes().subspan(wire::kEncapsulationSize);
    const auto flow = offload::parse_flow(ip, wire::upper_layer(ip));
    EXPECT_TRUE(flow && offload::can_coalesce(*flow));
    if (each.frame.checksums_valid()) ++count;
  }
  return count;
}

TEST_F(UdChecksumsTest, LeavesChecksumsToADeviceThatPassesTheProbe) {
  if (!device_computes_checksums()) GTEST_SKIP() << "the device computes no checksums";
  for (int tries = 0; tries < kTries && !a_->qp->checksum_offload(); ++tries) make_sides({});
  ASSERT_TRUE(a_->qp->checksum_offload());
  EXPECT_EQ(a_->qp->counters().large_packets, 0U) << "probe packets are not counted";
  ASSERT_EQ(a_->send(large_udp(to_b(4, 0))), 1U);
  EXPECT_EQ(verified_by_device(b_->receive(4)), 4U);
  a_->settle();
}

TEST_F(UdChecksumsTest, ComputesChecksumsForADeviceWithoutTheCapability) {
  shows_checksum_capability = false;
  make_sides({});
  shows_checksum_capability = true;
  EXPECT_FALSE(a_->qp->checksum_offload());
  ASSERT_EQ(a_->send(large_udp(to_b(4, 0))), 1U);
  EXPECT_EQ(verified_by_device(b_->receive(4)), 0U);
  a_->settle();
}

int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;

TEST_F(UdChecksumsTest, ComputesChecksumsForADeviceThatFailsTheProbe) {
  auto& verb = device_->context()->ops.post_send;
  post_send = verb;
  verb = [](ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
    for (auto* work = chain; work != nullptr; work = work->next) {
      work->send_flags &= ~static_cast<unsigned>(IBV_SEND_IP_CSUM);
    }
    return post_send(qp, chain, refused);
  };
  make_sides({});
  EXPECT_FALSE(a_->qp->checksum_offload());
  EXPECT_FALSE(a_->qp->is_broken());
  ASSERT_EQ(a_->send(large_udp(to_b(4, 0))), 1U);
  EXPECT_EQ(verified_by_device(b_->receive(4)), 0U);
  a_->settle();
  verb = post_send;
}

TEST_F(UdChecksumsTest, ComesUpIfTheDeviceRefusesToComputeChecksums) {
  auto& verb = device_->context()->ops.post_send;
  post_send = verb;
  verb = [](ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
    for (auto* work = chain; work != nullptr; work = work->next) {
      if ((work->send_flags & IBV_SEND_IP_CSUM) == 0) continue;
      *refused = chain;
      return EINVAL;
    }
    return post_send(qp, chain, refused);
  };
  make_sides({});
  EXPECT_FALSE(a_->qp->checksum_offload());
  EXPECT_TRUE(a_->qp->is_up());
  expect_connected();
  verb = post_send;
}

/// For example because the partition disappears during the probe.
/// Whatever its completions say.
TEST_F(UdChecksumsTest, DoesNotBelieveADeviceWithoutTheCapability) {
  shows_checksum_capability = false;
  make_sides({});
  shows_checksum_capability = true;
  auto& verb = device_->context()->ops.poll_cq;
  static decltype(ibv_context_ops::poll_cq) poll = nullptr;
  poll = verb;
  verb = [](ibv_cq* cq, int count, ibv_wc* completions) {
    const int found = poll(cq, count, completions);
    for (int i = 0; i < found; ++i) completions[i].wc_flags |= IBV_WC_IP_CSUM_OK;
    return found;
  };
  ASSERT_EQ(a_->send(to_b(100, 3)), 1U);
  const auto got = b_->receive(1);
  verb = poll;
  ASSERT_EQ(got.size(), 1U);
  EXPECT_FALSE(got[0].frame.checksums_valid());
}

TEST_F(UdChecksumsTest, ProbesAgainAfterAProbeWithoutAResult) {
  if (!device_computes_checksums()) GTEST_SKIP() << "the device computes no checksums";
  auto& verb = device_->context()->ops.post_send;
  post_send = verb;
  for (int tries = 0; tries == 0 || (tries < kTries && !a_->qp->checksum_offload()); ++tries) {
    verb = [](ibv_qp* /*qp*/, ibv_send_wr* /*chain*/, ibv_send_wr** /*refused*/) { return 0; };
    make_sides({});
    EXPECT_FALSE(a_->qp->checksum_offload());
    verb = post_send;
    a_->qp->restart().value();
  }
  EXPECT_TRUE(a_->qp->checksum_offload());
  expect_connected();
}

/// After that, some completion covers each send in the queue.
TEST_F(UdChecksumsTest, ReturnsAllFramesAfterARefusedChain) {
  make_sides({.receive = 64, .send = 16});
  auto& verb = device_->context()->ops.post_send;
  post_send = verb;
  verb = [](ibv_qp* /*qp*/, ibv_send_wr* chain, ibv_send_wr** refused) {
    *refused = chain;
    return ENOMEM;
  };
  std::vector<Outgoing> batch;
  for (std::uint8_t i = 0; i < kSignalPeriod; ++i) batch.push_back(to_b(300, i));
  EXPECT_EQ(a_->qp->send(batch), 0U);
  EXPECT_TRUE(a_->qp->is_broken());
  EXPECT_EQ(a_->qp->counters().post_refused, 1U);
  verb = post_send;
  a_->qp->restart().value();
  EXPECT_EQ(a_->qp->send(batch), kSignalPeriod);
  a_->settle();
  EXPECT_EQ(a_->qp->send_progress().in_flight, 0U);
}

}  // namespace
}  // namespace ipoib::verbs
