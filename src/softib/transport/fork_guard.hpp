// Descriptors that a forked child must not keep: locks that show that this process is running, and
// sockets whose end shows that it has died. The child has no engine thread, so it could not use
// them either.
//
// A handler of pthread_atfork(3) closes guarded descriptors in the child. (A child that executes
// another program without fork handlers loses them by their close-on-exec flag.)
//
// The guarded set is a bitmap of atomics, one bit for each descriptor number. Creating and guarding
// a descriptor, and unguarding and closing it, happen under ForkLock, which the prepare handler
// takes too. So at a fork each open descriptor of this kind has its bit set.
#pragma once

#include <cstdint>
#include <utility>

#include "ipoib/file_descriptor.hpp"

namespace softib::transport {

/// A number that differs in the child of each fork. An object that was made in another generation
/// belongs to a parent process and must not be used in this one.
[[nodiscard]] std::uint32_t fork_generation();

/// Registers the handlers of this file unless that has been done. To call before the handlers of a
/// mutex under which a ForkLock is taken are registered.
void register_fork_handlers();

/// While one exists, no fork begins. Must not be nested, so no guarded descriptor may be closed
/// meanwhile, and must not be held over calls that block.
class ForkLock {
 public:
  ForkLock();
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;
  ~ForkLock();
};

/// Owns a descriptor that is closed in forked children.
class GuardedFd {
 public:
  GuardedFd() = default;
  /// `fd` was opened while `lock` was held.
  GuardedFd(ipoib::FileDescriptor fd, const ForkLock& lock);
  GuardedFd(GuardedFd&&) noexcept = default;
  GuardedFd& operator=(GuardedFd&& other) noexcept;
  ~GuardedFd() { reset(); }

  [[nodiscard]] int get() const { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(fd_); }
  void reset();

 private:
  ipoib::FileDescriptor fd_;
  std::uint32_t generation_ = 0;
};

}  // namespace softib::transport
