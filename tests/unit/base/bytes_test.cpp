#include "ipoib/bytes.hpp"

#include <gtest/gtest.h>

namespace ipoib {
namespace {

TEST(ByteReader, IsBigEndianAndBounded) {
  const std::array<std::uint8_t, 7> bytes{1, 2, 3, 4, 5, 6, 7};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u8(), 0x01U);
  EXPECT_EQ(reader.u16(), 0x0203U);
  EXPECT_EQ(reader.u24(), 0x040506U);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.u16(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.left(), 0U);
}

TEST(ByteWriter, DiscardsWhatDoesNotFit) {
  std::array<std::uint8_t, 5> bytes{};
  ByteWriter writer(bytes);
  writer.u24(0x010203);
  EXPECT_TRUE(writer.ok());
  writer.u32(0xffffffff);
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(writer.written(), 3U);
  EXPECT_EQ(bytes, (std::array<std::uint8_t, 5>{1, 2, 3, 0, 0}));
}

}  // namespace
}  // namespace ipoib
