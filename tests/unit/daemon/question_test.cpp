#include "daemon/question.hpp"

#include <gtest/gtest.h>

namespace ipoib::daemon {
namespace {

TEST(QuestionTest, KeepsAllOfItInItsName) {
  constexpr std::uint32_t kLast = (1U << 29) - 1;
  for (const auto kind : {Question::Kind::join, Question::Kind::path, Question::Kind::leave,
                          Question::Kind::members, Question::Kind::subscription}) {
    for (const std::uint32_t number : {1U, 2U, kLast}) {
      const Question question{InterfaceNumber(number), kind, link::QuestionId(0xffffffff - number)};
      EXPECT_EQ(Question::of(question.name()), question);
    }
  }
}

}  // namespace
}  // namespace ipoib::daemon
