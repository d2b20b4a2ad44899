// The keyed hash, compared with that of Python: hash() of bytes is SipHash-1-3 since version 3.11,
// and PYTHONHASHSEED determines the key.
#include "ipoib/keyed_hash.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace ipoib {
namespace {

constexpr HashKey kZero{0, 0};                                     // PYTHONHASHSEED=0
constexpr HashKey kSeven{0x12c874a1806f0e3d, 0x470a89d2f9d2784f};  // PYTHONHASHSEED=7

template <std::size_t size>
std::array<std::uint8_t, size> count_up() {
  std::array<std::uint8_t, size> bytes{};
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

TEST(KeyedHashTest, IsSipHash13) {
  EXPECT_EQ(KeyedHash(kZero)(count_up<8>()), 0xead411e67ebe2eeaU);
  EXPECT_EQ(KeyedHash(kZero)(count_up<15>()), 0xf30eb725bb91c9eaU);
  EXPECT_EQ(KeyedHash(kZero)(count_up<16>()), 0x8972188433a5c5b7U);
  EXPECT_EQ(KeyedHash(kSeven)(count_up<8>()), 0x8450991e34fe08deU);
  EXPECT_EQ(KeyedHash(kSeven)(count_up<15>()), 0x1517e7dc54a43f5bU);
  EXPECT_EQ(KeyedHash(kSeven)(count_up<16>()), 0x642bba6a6c24ebf5U);
}

TEST(KeyedHashTest, HashesAddressesAsTheirBytes) {
  const KeyedHash hash(kSeven);
  const Ipv4Address ipv4(0x0a000001);
  EXPECT_EQ(hash(ipv4), 0x50dae34441dd1b22U);
  EXPECT_EQ(hash(IpAddress(ipv4)), hash(ipv4));
  const Ipv6Address ipv6(count_up<16>());
  EXPECT_EQ(hash(ipv6), 0x642bba6a6c24ebf5U);
  EXPECT_EQ(hash(IpAddress(ipv6)), hash(ipv6));
  EXPECT_EQ(hash(Gid(count_up<16>())), hash(ipv6));
}

}  // namespace
}  // namespace ipoib
