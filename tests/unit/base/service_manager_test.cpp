#include "ipoib/service_manager.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "ipoib/file_descriptor.hpp"

namespace ipoib {
namespace {

class ServiceManagerTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override {
    ::unsetenv("NOTIFY_SOCKET");
    std::filesystem::remove_all(folder_);
  }
  /// What a service manager with the socket `name` receives for `state`.
  std::string notification(const std::string& name, const std::string& state) {
    const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (name.front() == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    notify_service_manager(state);
    std::array<char, 64> text{};
    const auto got = ::recv(socket.get(), text.data(), text.size(), MSG_DONTWAIT);
    return {text.data(), got < 0 ? 0 : static_cast<std::size_t>(got)};
  }

  std::string folder_ = ::testing::TempDir() + "notify-XXXXXX";
};

TEST_F(ServiceManagerTest, NotifiesASocketInTheFileSystem) {
  EXPECT_EQ(notification(folder_ + "/notify", "READY=1"), "READY=1");
}

TEST_F(ServiceManagerTest, NotifiesAnAbstractSocket) {
  EXPECT_EQ(notification("@" + folder_, "STOPPING=1"), "STOPPING=1");
}

TEST_F(ServiceManagerTest, DoesNothingWithoutAServiceManager) {
  ::unsetenv("NOTIFY_SOCKET");
  notify_service_manager("READY=1");
  ::setenv("NOTIFY_SOCKET", (folder_ + "/missing").c_str(), 1);
  notify_service_manager("READY=1");
}

TEST(WatchdogTest, HasThePeriodOfTheServiceManager) {
  const auto with = [](const char* microseconds, const std::string& process) {
    ::setenv("WATCHDOG_USEC", microseconds, 1);
    ::setenv("WATCHDOG_PID", process.c_str(), 1);
    const auto period = watchdog_period();
    ::unsetenv("WATCHDOG_USEC");
    ::unsetenv("WATCHDOG_PID");
    return period;
  };
  const auto own = std::to_string(::getpid());
  EXPECT_EQ(with("2500000", own), std::chrono::milliseconds(2500));
  EXPECT_EQ(with("2500000", "1"), std::nullopt) << "of another process";
  for (const char* wrong : {"", "0", "-1", "1s"}) EXPECT_EQ(with(wrong, own), std::nullopt);
  EXPECT_EQ(watchdog_period(), std::nullopt);
}

}  // namespace
}  // namespace ipoib
