// Who computes the checksums of what UdQueuePair cuts: the device if it does, or else we.
#include <dlfcn.h>

#include "offload/flow.hpp"
#include "ud_queue_pair_fixture.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"

namespace {
bool device_says_that_it_sums_up = true;
}

/// What the device says, unless the test has it say nothing of checksums.
extern "C" int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_query_device)>(dlsym(RTLD_NEXT, "ibv_query_device"));
  const int error = verb(context, attributes);
  if (!device_says_that_it_sums_up) {
    attributes->device_cap_flags &= ~static_cast<unsigned>(IBV_DEVICE_UD_IP_CSUM);
  }
  return error;
}

namespace ipoib::verbs {
namespace {

/// A machine that is busy elsewhere may be too slow for a test.
constexpr int kTries = 50;

class UdChecksumsTest : public UdQueuePairTest {
 protected:
  [[nodiscard]] bool device_sums_up() const {
    ibv_device_attr attributes{};
    EXPECT_EQ(ibv_query_device(device_->context(), &attributes), 0);
    return (attributes.device_cap_flags & IBV_DEVICE_UD_IP_CSUM) != 0;
  }
};

/// Of UDP over IPv4, with 3500 octets of payload, to be cut after each 1000.
Outgoing udp_to_be_cut(Outgoing datagram) {
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
  // What is not the device's affair begins with the sum of the pseudo-header.
  const auto partial = wire::InternetChecksum()
                           .add_pseudo_header(Ipv4Address({10, 0, 0, 1}),
                                              Ipv4Address({10, 0, 0, 2}), wire::kUdp, 3508)
                           .sum();
  writer.u16(3508);
  writer.u16(partial);
  datagram.frame.set_segmentation({Segmentation::Kind::udp, kTransport, kHeaders, 1000});
  return datagram;
}

/// How many of those that arrive the device vouches for; all are right.
std::size_t vouched_for(const std::vector<Incoming>& datagrams) {
  std::size_t count = 0;
  for (const auto& each : datagrams) {
    const auto ip = each.frame.bytes().subspan(wire::kEncapsulationSize);
    const auto flow = offload::parse_flow(ip, wire::upper_layer(ip));
    EXPECT_TRUE(flow && offload::can_coalesce(*flow));
    if (each.frame.checksums_valid()) ++count;
  }
  return count;
}

TEST_F(UdChecksumsTest, LeavesTheChecksumsToADeviceThatHasShownThatItComputesThem) {
  if (!device_sums_up()) GTEST_SKIP() << "it does not";
  for (int tries = 0; tries < kTries && !a_->pair->checksum_offload(); ++tries) make_sides({});
  ASSERT_TRUE(a_->pair->checksum_offload());
  EXPECT_EQ(a_->pair->counters().large_packets, 0U) << "the test was none of the link's";
  ASSERT_EQ(a_->send(udp_to_be_cut(to_b(4, 0))), 1U);
  EXPECT_EQ(vouched_for(b_->receive(4)), 4U);
  a_->settle();
}

TEST_F(UdChecksumsTest, ComputesTheChecksumsForADeviceThatDoesNotSayThatItDoes) {
  device_says_that_it_sums_up = false;
  make_sides({});
  device_says_that_it_sums_up = true;
  EXPECT_FALSE(a_->pair->checksum_offload());
  ASSERT_EQ(a_->send(udp_to_be_cut(to_b(4, 0))), 1U);
  EXPECT_EQ(vouched_for(b_->receive(4)), 0U);
  a_->settle();
}

int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;

TEST_F(UdChecksumsTest, ComputesTheChecksumsForADeviceThatSaysSoAndDoesNot) {
  auto& verb = device_->context()->ops.post_send;
  post_send = verb;
  verb = [](ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
    for (auto* work = chain; work != nullptr; work = work->next) {
      work->send_flags &= ~static_cast<unsigned>(IBV_SEND_IP_CSUM);
    }
    return post_send(qp, chain, refused);
  };
  make_sides({});
  EXPECT_FALSE(a_->pair->checksum_offload());
  EXPECT_FALSE(a_->pair->is_broken());
  ASSERT_EQ(a_->send(udp_to_be_cut(to_b(4, 0))), 1U);
  EXPECT_EQ(vouched_for(b_->receive(4)), 0U);
  a_->settle();
  verb = post_send;
}

TEST_F(UdChecksumsTest, IsUpOnADeviceThatRefusesToComputeChecksums) {
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
  EXPECT_FALSE(a_->pair->checksum_offload());
  EXPECT_TRUE(a_->pair->is_up());
  expect_connected();
  verb = post_send;
}

/// As one whose partition goes while the device is checked.
TEST_F(UdChecksumsTest, ChecksADeviceAgainThatWasNotHeard) {
  if (!device_sums_up()) GTEST_SKIP() << "it does not";
  auto& verb = device_->context()->ops.post_send;
  post_send = verb;
  for (int tries = 0; tries == 0 || (tries < kTries && !a_->pair->checksum_offload()); ++tries) {
    verb = [](ibv_qp* /*qp*/, ibv_send_wr* /*chain*/, ibv_send_wr** /*refused*/) { return 0; };
    make_sides({});
    EXPECT_FALSE(a_->pair->checksum_offload());
    verb = post_send;
    a_->pair->restart().value();
  }
  EXPECT_TRUE(a_->pair->checksum_offload());
  expect_connected();
}

/// All that is in the send queue after that is covered by a completion, however it is made up.
TEST_F(UdChecksumsTest, GetsEverythingBackAfterAChainThatWasRefused) {
  make_sides({.receive = 64, .send = 16});
  auto& verb = device_->context()->ops.post_send;
  post_send = verb;
  verb = [](ibv_qp* /*qp*/, ibv_send_wr* chain, ibv_send_wr** refused) {
    *refused = chain;
    return ENOMEM;
  };
  std::vector<Outgoing> batch;
  for (std::uint8_t i = 0; i < kSignalPeriod; ++i) batch.push_back(to_b(300, i));
  EXPECT_EQ(a_->pair->send(batch), 0U);
  EXPECT_TRUE(a_->pair->is_broken());
  verb = post_send;
  a_->pair->restart().value();
  EXPECT_EQ(a_->pair->send(batch), kSignalPeriod);
  a_->settle();
  EXPECT_EQ(a_->pair->sends_in_flight(), 0U);
}

}  // namespace
}  // namespace ipoib::verbs
