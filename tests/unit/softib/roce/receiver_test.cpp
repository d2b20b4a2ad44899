#include "softib/roce/receiver.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "udp_fixture.hpp"

namespace softib::roce {
namespace {

/// Datagrams of one flow, which the kernel may have joined, as they are received.
class ReceiverTest : public ::testing::Test {
 protected:
  using Bytes = std::vector<std::uint8_t>;

  /// A datagram of so many bytes, whose identification is that of the one with this index.
  [[nodiscard]] Bytes datagram(std::size_t bytes, std::uint16_t index) const {
    Bytes datagram(bytes - ipoib::wire::kIcrcSize);
    std::iota(datagram.begin(), datagram.end(), static_cast<std::uint8_t>(index));
    const Icrc icrc(flow_, bytes, index, datagram);
    for (unsigned i = 0; i < ipoib::wire::kIcrcSize; ++i) {
      datagram.push_back(static_cast<std::uint8_t>((icrc.value() ^ flipped_) >> (8 * i)));
    }
    return datagram;
  }
  std::size_t deliver(const std::vector<Bytes>& datagrams, std::size_t segment) {
    Bytes all;
    for (const auto& each : datagrams) all.insert(all.end(), each.begin(), each.end());
    return receiver_.deliver({all.size(), segment, flow_, {0x68, 7}}, all, arrivals_);
  }
  [[nodiscard]] ConstBytes arrived(std::size_t index) const {
    return ConstBytes(arrivals_.packets.at(index).bytes);
  }

  Flow flow_{gid_of_ipv4(0x0a000001), gid_of_ipv4(0x0a000002), 0xc001};
  std::uint32_t flipped_ = 0;  ///< bits of the ICRC that are wrong
  Receiver receiver_;
  Arrivals arrivals_;
};

TEST_F(ReceiverTest, OfJoinedDatagramsEachIsChecked) {
  const auto first = datagram(80, 0);
  flipped_ = 0x80000000;
  const auto wrong = datagram(80, 1);
  flipped_ = 0;
  const auto third = datagram(80, 2);
  const auto last = datagram(40, 3);
  EXPECT_EQ(deliver({first, wrong, third, last}, 80), 4U);
  EXPECT_EQ(arrivals_.wrong, 1U);
  ASSERT_EQ(arrivals_.packets.size(), 3U);
  std::size_t index = 0;
  for (const auto* const sent : {&first, &third, &last}) {
    const auto packet = ConstBytes(*sent).first(sent->size() - ipoib::wire::kIcrcSize);
    EXPECT_TRUE(std::ranges::equal(arrived(index).subspan(kRouteBytes), packet)) << index;
    const auto route = route_of(arrived(index));
    ASSERT_TRUE(route);
    EXPECT_EQ(route->flow.source, flow_.source);
    EXPECT_EQ(route->flow.destination, flow_.destination);
    EXPECT_EQ(route->options, (IpOptions{0x68, 7}));
    EXPECT_EQ(arrivals_.packets[index].destination, destination_of(packet));
    ++index;
  }
}

TEST_F(ReceiverTest, WhatCannotBeAPacketIsMalformed) {
  for (const std::size_t bytes : {kLeastPayload - 4, kLeastPayload + 2, kMostPayload + 4}) {
    EXPECT_EQ(deliver({Bytes(bytes)}, 0), 1U);
  }
  EXPECT_EQ(deliver({}, 0), 1U);
  EXPECT_EQ(deliver({}, 80), 1U);
  EXPECT_EQ(deliver({Bytes(12), Bytes(12), Bytes(4)}, 12), 3U);
  EXPECT_EQ(arrivals_.bad, 8U);
  EXPECT_EQ(deliver({datagram(kLeastPayload, 0)}, 0), 1U);
  EXPECT_EQ(deliver({datagram(kMostPayload / 4 * 4, 0)}, 0), 1U);
  EXPECT_EQ(arrivals_.packets.size(), 2U);
  EXPECT_EQ(arrivals_.bad, 8U);
  EXPECT_EQ(arrivals_.wrong, 0U);
}

// Only IPv4 has an identification, which can explain a difference.
TEST_F(ReceiverTest, OfIpv6TheIcrcIsThatOfThePacket) {
  const Bytes packet(76);
  flipped_ = Icrc(flow_, 80, 0, packet).value() ^ Icrc(flow_, 80, 1, packet).value();
  (void)deliver({datagram(80, 0)}, 0);
  EXPECT_EQ(arrivals_.wrong, 0U);
  flow_.source = {0xfd07'0000'0000'0000, Guid(1)};
  flow_.destination = {0xfd07'0000'0000'0000, Guid(2)};
  (void)deliver({datagram(80, 0)}, 0);
  EXPECT_EQ(arrivals_.wrong, 1U);
  flipped_ = 0;
  EXPECT_EQ(deliver({datagram(80, 0), datagram(80, 1)}, 80), 2U);
  EXPECT_EQ(arrivals_.wrong, 1U);
}

}  // namespace
}  // namespace softib::roce
