#include "daemon/service.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ipoib::daemon {
namespace {

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = ::testing::TempDir() + "ipoibd-XXXXXX";
};

TEST_F(ServiceTest, RemovesThePidFileAtTheEnd) {
  const auto path = folder_ + "/pid";
  {
    const PidFile file(path);
    long pid = 0;
    std::ifstream(path) >> pid;
    EXPECT_EQ(pid, ::getpid());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(PidFile(folder_ + "/none/pid"), std::runtime_error);
  const PidFile no_file("");
}

TEST_F(ServiceTest, HangupEndsTheDaemonUnlessItWasStartedWithThatIgnored) {
  const auto before = std::signal(SIGHUP, SIG_DFL);
  EXPECT_THAT(termination_signals(), ::testing::ElementsAre(SIGTERM, SIGINT, SIGHUP));
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_THAT(termination_signals(), ::testing::ElementsAre(SIGTERM, SIGINT));
  std::signal(SIGHUP, before);
}

TEST_F(ServiceTest, BlocksTheTerminationSignals) {
  const auto is_blocked = [](int number) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return sigismember(&blocked, number) == 1;
  };
  TerminationSignalsBlocked blocked;
  for (const int number : termination_signals()) EXPECT_TRUE(is_blocked(number)) << number;
  blocked.release();
  for (const int number : termination_signals()) EXPECT_FALSE(is_blocked(number)) << number;
}

}  // namespace
}  // namespace ipoib::daemon
