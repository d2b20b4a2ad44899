#include "softib/roce/icrc.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace softib::roce {
namespace {

constexpr std::uint32_t kOurs = 0x0a090001;
constexpr std::uint32_t kTheirs = 0x0a090002;

Gid ipv6(std::uint64_t low) { return {0xfd96'0000'0000'0000, Guid(low)}; }

/// BTH of an RC WRITE whose byte 4 is not zero, and a payload that counts.
std::vector<std::uint8_t> packet_of(std::size_t payload) {
  std::vector<std::uint8_t> packet{0x06, 0x40, 0xff, 0xff, 0x40, 0x12, 0x34, 0x56, 0x80, 0, 0, 7};
  for (std::size_t i = 0; i < payload; ++i) packet.push_back(static_cast<std::uint8_t>(i));
  return packet;
}

std::uint32_t icrc_of(const Flow& flow, ConstBytes packet, std::uint16_t identification) {
  // The first bytes may be more than the BTH.
  Icrc icrc(flow, packet.size() + 4, identification, packet.first(packet.size() < 16 ? 12 : 16));
  icrc.add(packet.subspan(packet.size() < 16 ? 12 : 16));
  return icrc.value();
}

// The expected values were computed by zlib, over the fields as IBA annex A17.9.5 masks them.
TEST(Icrc, OfIpv4CoversTheIdentification) {
  const Flow flow{gid_of_ipv4(kOurs), gid_of_ipv4(kTheirs), 0xc123};
  EXPECT_EQ(icrc_of(flow, packet_of(16), 0), 0xfbb40eb3U);
  EXPECT_EQ(icrc_of(flow, packet_of(16), 0x1234), 0xa252e9ffU);
}

TEST(Icrc, OfIpv6) {
  const Flow flow{ipv6(1), ipv6(2), 0xc123};
  EXPECT_EQ(icrc_of(flow, packet_of(16), 0), 0x13645b62U);
}

TEST(Icrc, IgnoresTheCongestionBitsOfTheBth) {
  const Flow flow{ipv6(1), ipv6(2), 0xc123};
  auto packet = packet_of(16);
  packet[4] = 0xc0;
  EXPECT_EQ(icrc_of(flow, packet, 0), 0x13645b62U);
}

TEST(IdentificationCheck, ExplainsEachIdentificationAndLittleElse) {
  const Flow flow{gid_of_ipv4(kOurs), gid_of_ipv4(kTheirs), 0xc123};
  IdentificationCheck check;
  std::mt19937 random(1);
  for (const std::size_t payload : {0U, 4U, 256U, 1024U, 4096U}) {
    const auto packet = packet_of(payload);
    const auto zero = icrc_of(flow, packet, 0);
    for (int i = 0; i < 200; ++i) {
      const auto identification = static_cast<std::uint16_t>(random());
      EXPECT_TRUE(check.explains(zero ^ icrc_of(flow, packet, identification), packet.size() + 4));
    }
    int explained = 0;
    for (int i = 0; i < 10'000; ++i) {
      if (check.explains(static_cast<std::uint32_t>(random()) | 1U, packet.size() + 4)) ++explained;
    }
    EXPECT_LE(explained, 5) << "of 10,000, of which 0.15 are to be expected";
  }
}

TEST(IdentificationCheck, RefusesLengthsThatNoPacketHas) {
  IdentificationCheck check;
  EXPECT_FALSE(check.explains(1, 17));
  EXPECT_FALSE(check.explains(1, 1U << 20));
}

}  // namespace
}  // namespace softib::roce
