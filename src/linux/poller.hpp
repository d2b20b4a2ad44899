// The event loop of a thread that owns a data path: epoll, edge-triggered, with a deadline.
//
// Edge-triggered, because such a loop reads until there is nothing left anyway, and because it may
// decide not to read (no free frame) without the descriptor waking it again and again.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/time.hpp"

namespace ipoib::host {

class Poller {
 public:
  static constexpr std::size_t kMaxReady = 8;

  Poller();  ///< throws std::system_error when the process has no descriptor left

  /// Reports `tag` each time that `fd` becomes readable, and at first if it is readable already.
  void add(int fd, std::uint32_t tag);
  /// Sleeps until something is ready or `deadline` has passed; a deadline of `now` or before does
  /// not sleep at all. The result is valid until the next call.
  [[nodiscard]] std::span<const std::uint32_t> wait(TimePoint now, TimePoint deadline);

 private:
  FileDescriptor epoll_;
  std::array<epoll_event, kMaxReady> events_{};
  std::array<std::uint32_t, kMaxReady> ready_{};
};

}  // namespace ipoib::host
