#include "erf/capture_format.hpp"

#include <gtest/gtest.h>

#include <string>

#include "wire/packet.hpp"

namespace ipoib::erf {
namespace {

using Buffer = std::vector<std::uint8_t>;

std::string hexadecimal(ConstBytes bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (const auto byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

TEST(CaptureFormatTest, TheFileHeaderIsThatOfPcapWithErf) {
  EXPECT_EQ(hexadecimal(file_header()),
            "a1b2c3d400020004"
            "0000000000000000"
            "0000ffff"
            "000000c5");
}

TEST(CaptureFormatTest, ARecordHasTimeDirectionAndChecksums) {
  const Buffer packet(48, 0x11);
  Buffer out;
  const WallTime when(std::chrono::seconds(0x60000000) + std::chrono::microseconds(500'000));
  append_record(out, packet, Direction::received, when);
  ASSERT_EQ(out.size(), 16U + 16U + 48U + 6U);
  EXPECT_EQ(hexadecimal(ConstBytes(out).first(16)),
            "600000000007a120"
            "00000046"
            "00000046");
  // The time of ERF is little-endian, in units of 2^-32 s.
  EXPECT_EQ(hexadecimal(ConstBytes(out).subspan(16, 16)),
            "0000008000000060"
            "1505"
            "0046"
            "0000"
            "0036");
  const auto crc = wire::invariant_crc(packet);
  EXPECT_EQ(out[80], crc & 0xff);
  EXPECT_EQ(out[83], crc >> 24);
  const auto variant = wire::variant_crc(ConstBytes(out).subspan(32, 52));
  EXPECT_EQ(out[84], variant & 0xff);
  EXPECT_EQ(out[85], variant >> 8);
  append_record(out, packet, Direction::sent, when);
  EXPECT_EQ(out[86 + 16 + 9], 4) << "of varying length, interface 0";
}

TEST(CaptureFormatTest, FindsTheEndOfTheLastCompleteRecord) {
  Buffer out;
  append_record(out, Buffer(48), Direction::sent, {});
  const auto first = out.size();
  append_record(out, Buffer(20), Direction::sent, {});
  EXPECT_EQ(complete_size(out, out.size()), out.size());
  EXPECT_EQ(complete_size(out, out.size() - 1), first);
  EXPECT_EQ(complete_size(out, first), first);
  EXPECT_EQ(complete_size(out, first - 1), 0U);
}

}  // namespace
}  // namespace ipoib::erf
