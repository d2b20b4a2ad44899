// The reason why the last verb of a thread failed, since an errno value does not say which of the
// many conditions of a verb was broken. Programs read it by softibdv_last_error(), and SOFTIB_LOG
// prints it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "ipoib/time.hpp"

namespace softib::verbs {

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

/// Stores that the function `verb` has failed with `code`, an errno value.
void set_last_error(const char* verb, int code, const char* why) noexcept;

/// Stores the failure of a function that posts work requests, which has no text for each of its
/// conditions. Returns `code`; does nothing if that is 0.
int post_result(const char* verb, int code) noexcept;

}  // namespace softib::verbs
