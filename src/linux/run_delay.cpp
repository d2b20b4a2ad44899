#include "linux/run_delay.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ipoib::host {

RunDelay::RunDelay() : fd_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

std::optional<Duration> RunDelay::read() const {
  // "time on a processor, time of waiting for one, number of slices", in nanoseconds.
  std::array<char, 128> text;
  const auto size = ::pread(fd_.get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  const auto* const end = text.data() + size;
  const auto* const gap = std::find<const char*>(text.data(), end, ' ');
  Duration::rep delay = 0;
  if (gap == end || std::from_chars(gap + 1, end, delay).ec != std::errc()) return std::nullopt;
  return Duration(delay);
}

}  // namespace ipoib::host
