// The trace: the most recent events of each thread, always enabled.
//
// A ring belongs to one thread, which writes records of a keyword, a time and two numbers. A record
// costs a few stores, without locks or system calls, and overwrites the oldest. Any thread may read
// a ring at the same time, and gets complete records only. crash_dump.hpp writes all rings when a
// signal kills the process.
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

/// The event of a record: a string literal, whose address stays valid.
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
  static constexpr std::size_t kMaxName =
      31;  ///< bytes of the thread's name; longer ones are truncated

  explicit TraceRing(std::string_view thread) { assign(thread); }
  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;

  /// Assigns the ring to another thread. The records of the previous one can no longer be read.
  void assign(std::string_view thread) noexcept;

  /// Writes a record. Only the owning thread calls it. The keyword defines the meaning of the
  /// numbers.
  void record(TraceKeyword keyword, TimePoint when, std::uint64_t first = 0,
              std::uint64_t second = 0) noexcept {
    // Each store is a release: a reader that sees a value of this record also sees the count before
    // it, and so detects that the slot's old record is overwritten. On x86 these are plain moves.
    const std::uint64_t sequence = count_.load(std::memory_order_relaxed);
    Slot& slot = slots_[sequence % kRecords];
    slot.keyword.store(keyword.text(), std::memory_order_release);
    slot.when.store(when.time_since_epoch().count(), std::memory_order_release);
    slot.first.store(first, std::memory_order_release);
    slot.second.store(second, std::memory_order_release);
    count_.store(sequence + 1, std::memory_order_release);
  }

  [[nodiscard]] const char* thread() const { return name_.data(); }
  /// Number of records written so far; the last kRecords - 1 of them can be read.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_acquire); }
  /// Reads record `sequence`. Returns false if it is not written yet, or overwritten. Any thread
  /// may call it; async-signal-safe.
  [[nodiscard]] bool read(std::uint64_t sequence, TraceRecord& out) const noexcept;

 private:
  struct Slot {
    std::atomic<const char*> keyword{nullptr};
    std::atomic<Duration::rep> when{0};
    std::atomic<std::uint64_t> first{0};
    std::atomic<std::uint64_t> second{0};
  };
  std::array<char, kMaxName + 1> name_{};
  std::atomic<std::uint64_t> first_{0};  ///< the first record of the current thread
  std::atomic<std::uint64_t> count_{0};
  std::array<Slot, kRecords> slots_;
};

/// All rings of a program. When a thread ends, its records stay until its ring is reused.
class TraceRings {
 public:
  static constexpr std::size_t kMax = 256;

  /// Returns a new ring for the thread `thread`; if there are kMax rings, the one that was released
  /// first, or throws std::length_error. Only the thread that starts the others calls it.
  [[nodiscard]] TraceRing& add(std::string_view thread);
  /// To call when the thread of `ring` has ended, from the same thread as add().
  void release(TraceRing& ring) { released_.push_back(&ring); }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_acquire); }
  /// Requires an index below size().
  [[nodiscard]] const TraceRing& ring(std::size_t index) const { return *rings_[index]; }
  /// Writes all records to a descriptor as text, thread by thread, in lines
  /// "trace <thread> <seconds> <keyword> <first> <second>". Async-signal-safe.
  void write_text(int fd) const noexcept;

 private:
  std::array<std::unique_ptr<TraceRing>, kMax> rings_;
  std::deque<TraceRing*> released_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace ipoib
