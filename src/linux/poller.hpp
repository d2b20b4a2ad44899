// epoll with a deadline, edge-triggered, for the loop of a data path.
//
// It is edge-triggered, because the loop reads until nothing is left, and because it may stop
// reading (no free frame) and must not be woken again for the same data.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/time.hpp"

namespace ipoib::linux {

class Poller {
 public:
  static constexpr std::size_t kMaxReady = 8;

  Poller();  ///< throws std::system_error when the process has no descriptor left

  /// Reports `tag` whenever `fd` becomes readable, and once if it is readable already.
  void add(int fd, std::uint32_t tag);
  /// Sleeps until a descriptor is ready or `deadline` has passed; does not sleep if `deadline` is
  /// not after `now`. Returns the tags, valid until the next call.
  [[nodiscard]] std::span<const std::uint32_t> wait(TimePoint now, TimePoint deadline);

 private:
  FileDescriptor epoll_;
  std::array<epoll_event, kMaxReady> events_{};
  std::array<std::uint32_t, kMaxReady> ready_{};
};

}  // namespace ipoib::linux
