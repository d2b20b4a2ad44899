#include "program/nearest.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ipoib::program {
namespace {

constexpr std::array<std::string_view, 5> kNames{"show", "stats", "stations", "explain",
                                                 "--neighbours"};

TEST(Nearest, ALetterTooManyOrTooFewOrAnotherOne) {
  EXPECT_EQ(did_you_mean("stat", kNames), "; did you mean stats?");
  EXPECT_EQ(did_you_mean("sttats", kNames), "; did you mean stats?");
  EXPECT_EQ(did_you_mean("shew", kNames), "; did you mean show?");
  EXPECT_EQ(did_you_mean("--neighbors", kNames), "; did you mean --neighbours?");
}

TEST(Nearest, SwappedLettersAreOneChange) {
  EXPECT_EQ(did_you_mean("sohw", kNames), "; did you mean show?");
  EXPECT_EQ(did_you_mean("exlpain", kNames), "; did you mean explain?");
}

TEST(Nearest, NothingIsLikeIt) {
  EXPECT_EQ(did_you_mean("sing", kNames), "");
  EXPECT_EQ(did_you_mean("", kNames), "");
  EXPECT_EQ(did_you_mean("a", kNames), "");
  EXPECT_EQ(did_you_mean(std::string(1000, 's'), kNames), "");
  EXPECT_EQ(did_you_mean("show", {}), "");
}

}  // namespace
}  // namespace ipoib::program
