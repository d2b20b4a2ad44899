// Runs part of a test with mounts that nothing else sees.
#pragma once

#include <sched.h>
#include <sys/mount.h>

#include <thread>

namespace ipoib::test {

/// Runs `work` on a thread with a mount namespace of its own, which takes root. Returns false if
/// there is none.
template <class Work>
[[nodiscard]] bool with_own_mounts(Work work) {
  bool is_possible = false;
  std::thread([&] {
    is_possible = ::unshare(CLONE_FS | CLONE_NEWNS) == 0 &&
                  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (is_possible) work();
  }).join();
  return is_possible;
}

}  // namespace ipoib::test
