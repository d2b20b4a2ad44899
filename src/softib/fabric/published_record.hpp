// A record in shared memory with one writer and any number of readers in other processes. A
// complete value can be read at any time, even after the writer was killed in the middle of a
// change.
//
//   version v | slot 0 | slot 1          slot v mod 2 holds the value
//
// Writer: stores the words of the unused slot, (v + 1) mod 2, each with release; then stores
// version v + 1 with release. Nobody else writes.
//
// Reader: loads version v with acquire, so it sees all words of slot v mod 2 that were stored
// before v; loads these words, each with acquire; loads the version again. If it is still v, the
// words belong to one value. Proof: the writer stores into this slot again only after it has stored
// version v + 1, so a reader that loaded such a newer word (acquire) also sees v + 1 or later, and
// retries.
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
  /// read() fails if the record changes during this many attempts.
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

  /// Returns one word of the value, or of one that has just been replaced.
  [[nodiscard]] std::uint64_t peek(std::size_t word) const {
    return slots_[version() & 1][word].load(std::memory_order_acquire);
  }

  void publish(const Value& value) {
    fill(value);
    version_.store(next(), std::memory_order_release);
  }

  /// The first half of publish(); public so that tests can leave a change half done.
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
