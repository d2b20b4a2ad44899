// The trace: what each thread did last, always on, to be read afterwards.
//
// A ring belongs to one thread, which writes records of a keyword, a time and two numbers; a record
// costs a few stores, no lock and no system call. Anybody may read a ring meanwhile, and gets whole
// records only; the oldest are overwritten. crash_dump.hpp writes all rings out when the process
// dies of a signal.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>

#include "ipoib/time.hpp"

namespace ipoib {

/// What a record is about: a string literal, so that its address is good for ever.
class TraceKeyword {
 public:
  consteval TraceKeyword(const char* literal) : text_(literal) {}  // NOLINT: reads as a literal
  [[nodiscard]] const char* text() const { return text_; }

 private:
  const char* text_;
};

struct TraceRecord {
  std::uint64_t sequence = 0;  ///< from 0, in the order of writing
  const char* keyword = nullptr;
  TimePoint when{};
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

class TraceRing {
 public:
  static constexpr std::size_t kRecords = 4096;  ///< 128 KiB; a power of two
  static constexpr std::size_t kMaxName = 31;    ///< octets of the thread's name; more are cut off

  explicit TraceRing(std::string_view thread) { hand_over(thread); }
  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;

  /// Belongs to another thread from now on; what its forerunner wrote cannot be read any more.
  void hand_over(std::string_view thread) noexcept;

  /// By the owning thread only. What the numbers mean is the keyword's business.
  void record(TraceKeyword keyword, TimePoint when, std::uint64_t first = 0,
              std::uint64_t second = 0) noexcept {
    // Release order on each store: whoever reads a value of this record also sees that the count
    // has reached it, and so knows the old record of this place for overwritten. Plain moves on
    // x86.
    const std::uint64_t sequence = count_.load(std::memory_order_relaxed);
    Slot& slot = slots_[sequence % kRecords];
    slot.keyword.store(keyword.text(), std::memory_order_release);
    slot.when.store(when.time_since_epoch().count(), std::memory_order_release);
    slot.first.store(first, std::memory_order_release);
    slot.second.store(second, std::memory_order_release);
    count_.store(sequence + 1, std::memory_order_release);
  }

  [[nodiscard]] const char* thread() const { return name_.data(); }
  /// Records ever written; the last kRecords - 1 of them can be read.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_acquire); }
  /// The record of that number. False when it is not written yet or overwritten already. From any
  /// thread, and async-signal-safe.
  [[nodiscard]] bool read(std::uint64_t sequence, TraceRecord& out) const noexcept;

 private:
  struct Slot {
    std::atomic<const char*> keyword{nullptr};
    std::atomic<Duration::rep> when{0};
    std::atomic<std::uint64_t> first{0};
    std::atomic<std::uint64_t> second{0};
  };
  std::array<char, kMaxName + 1> name_{};
  std::atomic<std::uint64_t> first_{0};  ///< the first record of the present thread
  std::atomic<std::uint64_t> count_{0};
  std::array<Slot, kRecords> slots_;
};

/// All rings of a program. Rings live as long as this; a thread that ends leaves its last records,
/// until its ring is needed for another one.
class TraceRings {
 public:
  static constexpr std::size_t kMax = 256;

  /// A ring for the thread of that name; when there are kMax, that of the thread which ended first.
  /// By one thread only: the one that starts the others. Throws std::length_error beyond kMax.
  [[nodiscard]] TraceRing& add(std::string_view thread);
  /// The thread of `ring` has ended. By the same thread as add().
  void release(TraceRing& ring) { released_.push_back(&ring); }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_acquire); }
  /// Index below size().
  [[nodiscard]] const TraceRing& ring(std::size_t index) const { return *rings_[index]; }
  /// Writes all records as text into a descriptor, thread by thread, each line
  /// "trace <thread> <seconds> <keyword> <first> <second>". Async-signal-safe.
  void write_text(int fd) const noexcept;

 private:
  std::array<std::unique_ptr<TraceRing>, kMax> rings_;
  std::deque<TraceRing*> released_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace ipoib
