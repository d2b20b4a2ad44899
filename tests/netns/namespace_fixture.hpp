// Runs a test in its own network namespace.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace ipoib::test {

/// Skips the test if the process may not create a namespace.
class NamespaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0) {
      GTEST_SKIP() << "needs root for a network namespace: " << std::strerror(errno);
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
