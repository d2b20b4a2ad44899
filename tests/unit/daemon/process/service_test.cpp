#include "daemon/process/service.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace ipoib::daemon {
namespace {

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_ = ::testing::TempDir() + "ipoibd-XXXXXX";
};

TEST_F(ServiceTest, RemovesThePidFileAtTheEnd) {
  const auto path = folder_ + "/pid";
  {
    PidFile file(path);
    file.write();
    EXPECT_EQ(content(path), std::to_string(::getpid()) + "\n");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(PidFile(folder_ + "/none/pid"), std::runtime_error);
  PidFile no_file("");
  no_file.write();
}

TEST_F(ServiceTest, ReplacesThePidFileOfAKilledDaemonOnlyWhenItServes) {
  const auto path = folder_ + "/pid";
  std::ofstream(path) << "1234567890\n";
  { const PidFile unused(path); }
  EXPECT_EQ(content(path), "1234567890\n") << "another daemon may serve the interfaces";
  std::ofstream(path) << "";
  { const PidFile unused(path); }
  EXPECT_TRUE(std::filesystem::exists(path)) << "another daemon may be about to write it";
  PidFile file(path);
  file.write();
  EXPECT_EQ(content(path), std::to_string(::getpid()) + "\n");
}

TEST_F(ServiceTest, NeverWritesThroughASymbolicLink) {
  const auto target = folder_ + "/target";
  std::ofstream(target) << "precious";
  std::filesystem::create_symlink(target, folder_ + "/pid");
  EXPECT_THROW(PidFile(folder_ + "/pid"), std::runtime_error);
  EXPECT_EQ(content(target), "precious");
}

TEST_F(ServiceTest, HangupIsHandledUnlessTheDaemonWasStartedWithThatIgnored) {
  const auto before = std::signal(SIGHUP, SIG_DFL);
  EXPECT_THAT(handled_signals(), ::testing::ElementsAre(SIGTERM, SIGINT, SIGHUP));
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_THAT(handled_signals(), ::testing::ElementsAre(SIGTERM, SIGINT));
  std::signal(SIGHUP, before);
}

TEST_F(ServiceTest, HandledSignalsWaitUntilTheyAreTaken) {
  const auto is_blocked = [](int number) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return sigismember(&blocked, number) == 1;
  };
  {
    const HandledSignals signals;
    for (const int number : handled_signals()) EXPECT_TRUE(is_blocked(number)) << number;
    std::thread([&] {
      EXPECT_TRUE(is_blocked(SIGTERM)) << "in a thread that is started now";
    }).join();
    EXPECT_EQ(signals.take(), std::nullopt);
    ASSERT_EQ(::kill(::getpid(), SIGTERM), 0);
    EXPECT_EQ(signals.take(), SIGTERM);
    EXPECT_EQ(signals.take(), std::nullopt);
  }
  for (const int number : handled_signals()) EXPECT_FALSE(is_blocked(number)) << number;
}

}  // namespace
}  // namespace ipoib::daemon
