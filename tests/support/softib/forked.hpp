// What is so in a child of fork(), judged by its exit status.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace softib::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kForkIsSafe = false;
#else
inline constexpr bool kForkIsSafe = true;
#endif
inline constexpr const char* kForkIsUnsafe =
    "another thread may hold a lock of the sanitizer's at fork()";

/// What `work` returns in a child, 0 to 255; -1: the child came to another end.
template <class Work>
[[nodiscard]] int in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace softib::test
