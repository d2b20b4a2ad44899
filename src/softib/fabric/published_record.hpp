// A record in shared memory with one writer and any number of readers, where a whole value is
// there at any moment, even when the writer was killed in the middle of a change.
//
//   version v | slot 0 | slot 1          the value is in slot v mod 2
//
// The writer fills the other slot, then advances the version. A reader that finds the version
// unchanged after it has read the slot has read one value: the writer touches that slot again only
// after it has advanced the version. No fences: the words of a slot are stored with release and
// loaded with acquire order, so whoever sees a word of a later change sees the version before it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softib::fabric {

template <std::size_t Words>
class alignas(64) PublishedRecord {
 public:
  using Value = std::array<std::uint64_t, Words>;
  /// A reader gives up after so many changes during its reading.
  static constexpr int kMaxAttempts = 100;

  [[nodiscard]] std::uint32_t version() const { return version_.load(std::memory_order_acquire); }

  [[nodiscard]] bool read(Value& out) const {
    for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
      const auto before = version_.load(std::memory_order_acquire);
      const auto& slot = slots_[before & 1];
      for (std::size_t i = 0; i < Words; ++i) out[i] = slot[i].load(std::memory_order_acquire);
      if (version_.load(std::memory_order_relaxed) == before) return true;
    }
    return false;
  }

  /// One word of the value, or of one that was published a moment ago.
  [[nodiscard]] std::uint64_t peek(std::size_t word) const {
    return slots_[version() & 1][word].load(std::memory_order_acquire);
  }

  void publish(const Value& value) {
    fill(value);
    version_.store(next(), std::memory_order_release);
  }

  /// The first half of publish(): what a writer that is killed leaves behind.
  void fill(const Value& value) {
    auto& slot = slots_[next() & 1];
    for (std::size_t i = 0; i < Words; ++i) slot[i].store(value[i], std::memory_order_release);
  }

 private:
  [[nodiscard]] std::uint32_t next() const { return version_.load(std::memory_order_relaxed) + 1; }

  std::atomic<std::uint32_t> version_;
  std::array<std::array<std::atomic<std::uint64_t>, Words>, 2> slots_;
};

}  // namespace softib::fabric
