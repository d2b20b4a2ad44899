// Runs a function in a child of fork() and returns its exit status.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace softib::test {

#if defined(IPOIB_THREAD_SANITIZER) || defined(IPOIB_ADDRESS_SANITIZER)
inline constexpr bool kForkIsSafe = false;
#else
inline constexpr bool kForkIsSafe = true;
#endif
inline constexpr const char* kForkIsUnsafe =
    "another thread may hold a lock of the sanitizer's at fork()";

/// Returns what `work` returns in the child, 0 to 255; -1 if the child did not exit normally.
template <class Work>
[[nodiscard]] int in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace softib::test
