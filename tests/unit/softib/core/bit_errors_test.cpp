#include "softib/core/bit_errors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "wire/packet.hpp"

namespace softib {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes packet(std::size_t payload, bool global) {
  ipoib::wire::UdPacket packet;
  packet.lrh.dlid = Lid(2);
  packet.lrh.slid = Lid(3);
  if (global) packet.grh.emplace();
  Bytes bytes(ipoib::wire::UdPacket::kMaxHeaderSize);
  bytes.resize(packet.emit_headers(payload, bytes));
  bytes.resize(bytes.size() + payload, 0x5a);
  return bytes;
}

std::size_t different_bits(const Bytes& a, const Bytes& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    count += static_cast<std::size_t>(std::popcount(static_cast<std::uint8_t>(a[i] ^ b[i])));
  }
  return count;
}

TEST(BitErrors, AnUnchangedPacketHasAValidIcrc) {
  for (const bool global : {false, true}) {
    const auto bytes = packet(64, global);
    const auto sent = with_icrc(bytes);
    EXPECT_EQ(sent.size(), bytes.size() + 4);
    EXPECT_TRUE(has_valid_icrc(sent));
    EXPECT_TRUE(std::ranges::equal(without_icrc(sent), bytes));
  }
  EXPECT_FALSE(has_valid_icrc({}));
  EXPECT_FALSE(has_valid_icrc(Bytes(3)));
}

TEST(BitErrors, EachBitThatIsInvariantCounts) {
  auto sent = with_icrc(packet(8, false));
  std::size_t undetected = 0;
  for (std::size_t bit = 0; bit < sent.size() * 8; ++bit) {
    sent[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    if (has_valid_icrc(sent)) ++undetected;
    sent[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
  }
  EXPECT_EQ(undetected, 4U + 8U) << "virtual lane, and Resv8a of the BTH";
}

TEST(BitErrors, TheIcrcIsAlwaysWrong) {
  FaultRandom random(7);
  std::set<Bytes> damaged;
  std::size_t in_header = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto sent = with_icrc(packet(64, i % 2 == 0));
    auto arrived = sent;
    add_bit_errors(arrived, random);
    ASSERT_FALSE(has_valid_icrc(arrived));
    ASSERT_EQ(arrived.size(), sent.size());
    EXPECT_LE(different_bits(sent, arrived), 20U) << "bits, not noise";
    if (!std::equal(sent.begin(), sent.begin() + 8, arrived.begin())) ++in_header;
    damaged.insert(arrived);
  }
  EXPECT_GT(damaged.size(), 500U) << "different bits";
  EXPECT_GT(in_header, 0U);
}

TEST(BitErrors, AreThoseOfTheSeed) {
  const auto damaged = [](std::uint64_t seed) {
    FaultRandom random(seed);
    auto bytes = with_icrc(packet(64, true));
    add_bit_errors(bytes, random);
    return bytes;
  };
  EXPECT_EQ(damaged(1), damaged(1));
  EXPECT_NE(damaged(1), damaged(2));
}

}  // namespace
}  // namespace softib
