#include "ipoib/mac_address.hpp"

#include <gtest/gtest.h>

namespace ipoib {
namespace {

constexpr MacAddress kOne{0x02a1'b2c3'd4e5};

TEST(MacAddress, NumberAndBytesHaveTheSameOrder) {
  EXPECT_EQ(kOne.bytes(), (MacAddress::Bytes{0x02, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5}));
  EXPECT_EQ(MacAddress(kOne.bytes()).number(), 0x02a1'b2c3'd4e5U);
  EXPECT_EQ(MacAddress(0xffff'02a1'b2c3'd4e5U), kOne) << "the low 48 bits";
}

TEST(MacAddress, TextAndBack) {
  EXPECT_EQ(kOne.to_string(), "02:a1:b2:c3:d4:e5");
  EXPECT_EQ(MacAddress::parse("02:a1:b2:c3:d4:e5"), kOne);
  EXPECT_EQ(MacAddress::parse("02:A1:B2:C3:D4:E5"), kOne);
}

TEST(MacAddress, RefusesOtherText) {
  for (const auto* const text :
       {"", "02:a1:b2:c3:d4", "02:a1:b2:c3:d4:e5:", "02:a1:b2:c3:d4:e", "02-a1-b2-c3-d4-e5",
        "02:a1:b2:c3:d4:g5", "02:a1:b2:c3: 4:e5", "2:a1:b2:c3:d4:e55", "02:a1:b2:c3:d4:-5"}) {
    EXPECT_EQ(MacAddress::parse(text), std::nullopt) << text;
  }
}

TEST(MacAddress, Kinds) {
  EXPECT_TRUE(kBroadcastMac.is_multicast());
  EXPECT_TRUE(MacAddress(0x0100'5e00'0001).is_multicast());
  EXPECT_FALSE(kOne.is_multicast());
  EXPECT_TRUE(MacAddress().is_zero());
  EXPECT_FALSE(kOne.is_zero());
}

}  // namespace
}  // namespace ipoib
