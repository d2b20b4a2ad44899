// The reason why the last function of a thread failed: a verb, one of libibumad, or a command of
// librdmacm. An errno value does not say which of its many conditions was broken. Programs read it
// by softibdv_last_error(), and SOFTIB_LOG prints it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ipoib/time.hpp"

namespace softib::endpoint {

/// Size in bytes of the longest text, with the null byte.
inline constexpr std::size_t kMaxErrorText = 256;
/// The number of failures that are printed in a second; others are only counted.
inline constexpr std::uint32_t kPrintedPerSecond = 10;

/// Limits the failures that a process prints. Any thread may use it without a lock.
class PrintLimit {
 public:
  /// Returns how many failures were not printed since the last one that was; nullopt if this one is
  /// not to be printed either.
  [[nodiscard]] std::optional<std::uint32_t> admit(ipoib::TimePoint now);

 private:
  std::atomic<std::int64_t> second_ = -1;
  std::atomic<std::uint32_t> printed_ = 0;  ///< in this second, or more
  std::atomic<std::uint32_t> skipped_ = 0;
};

/// Stores that `function` has failed with `code`, an errno value.
void set_last_error(const char* function, int code, const char* why) noexcept;
/// That text; empty if none has failed. Valid until the next one fails in this thread.
[[nodiscard]] const char* last_error() noexcept;

}  // namespace softib::endpoint
