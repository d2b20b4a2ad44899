// Runs a test in its own network namespace.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "ipoib/file_descriptor.hpp"
#include "tests/support/emulator.hpp"

namespace ipoib::test {

/// Skips the test if the process may not create a namespace, or the kernel has no TUN devices. An
/// ordinary user needs a user namespace for that, in which he is root.
class NamespaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNDER_EMULATOR("passes few messages of netlink on");
    const uid_t user = geteuid();
    const gid_t group = getegid();
    if (!FileDescriptor(::open("/dev/net/tun", O_RDWR | O_CLOEXEC))) {
      GTEST_SKIP() << "needs /dev/net/tun: " << std::strerror(errno);
    }
    if (unshare(user == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      GTEST_SKIP() << "needs root, or a user namespace: " << std::strerror(errno);
    }
    if (user != 0) {
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
      std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
    }
    ip("link set lo up");
  }

  /// Runs ip(8).
  static void ip(const std::string& arguments) {
    ASSERT_EQ(std::system(("ip " + arguments).c_str()), 0) << arguments;
  }
};

/// Waits until `fd` is readable; false after ten seconds.
[[nodiscard]] inline bool wait_readable(int fd) {
  constexpr int kPatience = 10'000;
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, kPatience) == 1;
}

}  // namespace ipoib::test
