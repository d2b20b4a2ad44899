// Text that a signal handler writes, when the heap and stdio may be corrupted.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "ipoib/time.hpp"

namespace ipoib {

/// Collects text and writes it to a descriptor with async-signal-safe calls (signal-safety(7)).
/// Never blocks for more than kPatience in all: if nobody reads the other end, the rest is lost.
class SignalSafeText {
 public:
  static constexpr std::chrono::milliseconds kPatience{1000};

  explicit SignalSafeText(int fd);
  SignalSafeText(const SignalSafeText&) = delete;
  SignalSafeText& operator=(const SignalSafeText&) = delete;
  ~SignalSafeText() { flush(); }

  SignalSafeText& operator<<(const char* text);
  SignalSafeText& hexadecimal(std::uint64_t value);
  /// Appends a time in seconds with nine decimals.
  SignalSafeText& seconds(Duration::rep nanoseconds);

 private:
  void decimal(std::uint64_t value, std::size_t width);
  void put(char c);
  void flush();
  /// Returns whether the descriptor takes more before the deadline.
  [[nodiscard]] bool wait() const;

  int fd_;
  std::int64_t deadline_;  ///< of CLOCK_MONOTONIC, in milliseconds
  bool gave_up_;
  std::size_t used_ = 0;
  std::array<char, 1024> buffer_;
};

/// Opens a pipe or terminal again in non-blocking mode, which does not change that of other
/// processes. Returns -1 for anything else: regular files do not block, and sockets need no mode.
[[nodiscard]] int reopen_without_blocking(int fd);

}  // namespace ipoib
