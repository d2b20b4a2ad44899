#include <algorithm>

#include "golden.hpp"
#include "wire/packet.hpp"

namespace ipoib::wire {
namespace {

// The sample packets of IBA 7.8.3, LRH to padding.
constexpr std::string_view kTransport =
    "0a202487 0087b1b3 000dec2a 01710a1c 015d4002 38f27a05 0000000e bb884d85 fd5cfba4 728bc069"
    "0ed40000";
const auto kLocal = from_hex("7012375c 000e17d2" + std::string(kTransport));
const auto kGlobal = from_hex(
    "7013375c 001817d2 60000000 00320010 0000000000000125 0000000000000026"
    "0000000000000117 0000000000000096" +
    std::string(kTransport));

std::vector<std::uint8_t> with_icrc(std::vector<std::uint8_t> packet) {
  const std::uint32_t crc = invariant_crc(packet);
  for (int i = 0; i < 4; ++i) packet.push_back(static_cast<std::uint8_t>(crc >> (8 * i)));
  return packet;
}

/// Division by the polynomial, bit by bit, least significant bit of each byte first.
std::uint32_t serial(ConstBytes bytes, int width, std::uint32_t polynomial) {
  const std::uint64_t ones = (std::uint64_t{1} << width) - 1;
  std::uint64_t state = ones;
  for (const std::uint8_t byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool carry = ((state >> (width - 1)) & 1) != (byte >> bit & 1U);
      state = state << 1 & ones;
      if (carry) state ^= polynomial;
    }
  }
  state ^= ones;
  std::uint32_t reflected = 0;
  for (int bit = 0; bit < width; ++bit) {
    reflected = reflected << 1 | static_cast<std::uint32_t>(state >> bit & 1);
  }
  return reflected;
}

TEST(Crc, MatchesTheSamplePacketsOfIba) {
  auto local = with_icrc(kLocal);
  EXPECT_TRUE(std::ranges::equal(ConstBytes(local).last(4), from_hex("96 25 b7 5a")));
  EXPECT_EQ(variant_crc(local), 0xfa45);  // on the wire 45 fa
  auto global = with_icrc(kGlobal);
  EXPECT_TRUE(std::ranges::equal(ConstBytes(global).last(4), from_hex("14 93 ec 46")));
  EXPECT_EQ(variant_crc(global), 0x447c);
}

TEST(InvariantCrc, IgnoresFieldsThatASwitchMayChange) {
  auto changed = kLocal;
  changed[0] ^= 0xf0;   // virtual lane
  changed[12] ^= 0xff;  // Resv8a of the BTH
  EXPECT_EQ(invariant_crc(changed), invariant_crc(kLocal));
}

TEST(InvariantCrc, IgnoresFieldsThatARouterMayChange) {
  auto changed = kGlobal;
  changed[3] ^= 0x55;   // destination LID
  changed[8] ^= 0x0f;   // traffic class
  changed[10] ^= 0xff;  // flow label
  changed[15] ^= 0xff;  // hop limit
  EXPECT_EQ(invariant_crc(changed), invariant_crc(kGlobal));
}

TEST(InvariantCrc, CoversEveryOtherBit) {
  const auto expect_seen = [](const std::vector<std::uint8_t>& packet, std::size_t from,
                              const std::vector<std::size_t>& except) {
    for (std::size_t at = from; at < packet.size(); ++at) {
      if (std::ranges::find(except, at) != except.end()) continue;
      auto changed = packet;
      changed[at] ^= 0x01;
      EXPECT_NE(invariant_crc(changed), invariant_crc(packet)) << "byte " << at;
    }
  };
  // Byte 1 says whether there is a GRH, and thus what is masked.
  expect_seen(kLocal, 2, {12});
  expect_seen(kGlobal, 12, {15, 52});
}

TEST(InvariantCrc, AcceptsAnyLength) {
  for (std::size_t size = 0; size < kGlobal.size(); ++size) {
    (void)invariant_crc(ConstBytes(kGlobal).first(size));
  }
}

TEST(Crc, IsDivisionByItsPolynomialForEveryLength) {
  std::vector<std::uint8_t> bytes;
  std::uint32_t value = 1;
  for (std::size_t size = 0; size < 100; ++size) {
    EXPECT_EQ(variant_crc(bytes), serial(bytes, 16, 0x100b)) << size;
    if (size >= 20) {
      auto masked = bytes;
      masked[0] |= 0xf0;
      masked[12] = 0xff;
      EXPECT_EQ(invariant_crc(bytes), serial(masked, 32, 0x04c11db7)) << size;
    }
    value = value * 1664525 + 1013904223;
    bytes.push_back(bytes.size() == 1 ? std::uint8_t{0x02}
                                      : static_cast<std::uint8_t>(value >> 24));
  }
}

}  // namespace
}  // namespace ipoib::wire
