#include "control/log_levels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <cerrno>

#include "ipoib/log.hpp"

namespace ipoib::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LogLevelsTest : public testing::Test {
 protected:
  static std::shared_ptr<Logger> logger(const char* name) {
    return std::make_shared<Logger>(name, std::make_shared<spdlog::sinks::null_sink_mt>());
  }
  std::shared_ptr<Logger> link_ = logger("link");
  std::shared_ptr<Logger> sa_ = logger("sa");
  LogLevels levels_{{link_, sa_}};
};

TEST_F(LogLevelsTest, AreTheLoggersLevels) {
  sa_->set_level(spdlog::level::warn);
  EXPECT_THAT(levels_.all(),
              ElementsAre(ModuleLevel{"link", "info"}, ModuleLevel{"sa", "warning"}));
}

TEST_F(LogLevelsTest, AreSetByModule) {
  ASSERT_TRUE(levels_.set({{"link", "debug"}}).has_value());
  EXPECT_EQ(link_->level(), spdlog::level::debug);
  EXPECT_EQ(sa_->level(), spdlog::level::info);
}

TEST_F(LogLevelsTest, AreSetForAllAndInOrder) {
  ASSERT_TRUE(levels_.set({{"all", "error"}, {"sa", "trace"}}).has_value());
  EXPECT_EQ(link_->level(), spdlog::level::err);
  EXPECT_EQ(sa_->level(), spdlog::level::trace);
}

TEST_F(LogLevelsTest, ApplyToAllLoggersOfAModule) {
  ASSERT_TRUE(levels_.set({{"link", "debug"}}).has_value());
  const auto other = logger("link");
  levels_.add(other);
  levels_.add(logger("link"));  // gone at once
  EXPECT_EQ(other->level(), spdlog::level::debug);
  ASSERT_TRUE(levels_.set({{"all", "error"}, {"sa", "trace"}}).has_value());
  EXPECT_EQ(other->level(), spdlog::level::err);
  EXPECT_THAT(levels_.all(), ElementsAre(ModuleLevel{"link", "error"}, ModuleLevel{"sa", "trace"}));
}

TEST_F(LogLevelsTest, AreSetTogetherOrNotAtAll) {
  const auto module = levels_.set({{"link", "debug"}, {"nothing", "debug"}});
  ASSERT_TRUE(module.has_error());
  EXPECT_EQ(module.error().code, EINVAL);
  EXPECT_THAT(module.error().message,
              HasSubstr("nothing: no such module; modules are link, sa, all"));
  const auto level = levels_.set({{"link", "debug"}, {"sa", "loud"}});
  ASSERT_TRUE(level.has_error());
  EXPECT_THAT(level.error().message, HasSubstr("loud: no such level"));
  EXPECT_EQ(link_->level(), spdlog::level::info);
}

}  // namespace
}  // namespace ipoib::control
