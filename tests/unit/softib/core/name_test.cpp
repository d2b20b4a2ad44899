#include "softib/core/name.hpp"

#include <gmock/gmock.h>

namespace softib {
namespace {

TEST(Names, OfSubnetsAndHcas) {
  for (const char* good : {"a", "host1", "ns-4026531840", "node.example_7", "0"}) {
    EXPECT_TRUE(is_valid_name(good)) << good;
  }
  for (const char* bad : {"", ".", "..", ".hidden", "-x", "a/b", "a b", "a\"b", "\xc3\xa4"}) {
    EXPECT_FALSE(is_valid_name(bad)) << bad;
  }
  EXPECT_TRUE(is_valid_name(std::string(63, 'x')));
  EXPECT_FALSE(is_valid_name(std::string(64, 'x')));
}

TEST(Names, ErrorStatesTheRule) {
  EXPECT_THAT(invalid_name("HCA", "a b").message,
              testing::AllOf(testing::HasSubstr("'a b' is not a valid HCA name"),
                             testing::HasSubstr("letters, digits")));
}

}  // namespace
}  // namespace softib
