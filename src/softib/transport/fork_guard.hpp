// What a process that forks must not share with its child: locks that say "this process lives",
// sockets whose end says "it died". The child has no engine thread, so it cannot use them either.
//
// Descriptors under guard are closed in the child, by a handler of pthread_atfork(3). (A child that
// runs another program at once, without fork handlers, loses them by their close-on-exec flag.)
#pragma once

#include <cstdint>
#include <utility>

#include "ipoib/file_descriptor.hpp"

namespace softib::transport {

/// Grows in the child of each fork. Who was made in another generation is dead in this process.
[[nodiscard]] std::uint32_t fork_generation();

/// No fork begins while one lives. What is made and guarded under it is in no child unguarded.
/// Not to be nested, so nothing guarded is closed meanwhile; and not for what may wait.
class ForksHeldOff {
 public:
  ForksHeldOff();
  ForksHeldOff(const ForksHeldOff&) = delete;
  ForksHeldOff& operator=(const ForksHeldOff&) = delete;
  ~ForksHeldOff();
};

/// Owner of a descriptor that a child does not get.
class GuardedFd {
 public:
  GuardedFd() = default;
  /// `fd` was made while `held` lived.
  GuardedFd(ipoib::FileDescriptor fd, const ForksHeldOff& held);
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
