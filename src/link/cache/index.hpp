// The index of an EntryTable: slot numbers by the hashes of their keys.
//
// Buckets have 16 words, each bucket a cache line. A key has two buckets (Azar and others,
// "Balanced Allocations", 1999); its word is in the first one unless that was getting full. So a
// search reads two cache lines at most, whatever the keys are. With random hashes the buckets of a
// full table have 13 words at most. Only somebody who knows the key of the hash can fill both
// buckets of a key, which then cannot be inserted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ipoib::link::cache {

class Index {
 public:
  static constexpr std::size_t kWords = 16;  ///< of a bucket

  /// An index of `limit` slots, which is less than 2^21 - 1.
  explicit Index(std::size_t limit) : buckets_(limit / kPerBucket + 2) {}

  /// Returns false if both buckets are full.
  [[nodiscard]] bool insert(std::uint64_t hash, std::uint32_t slot) {
    Bucket* bucket = &buckets_[first(hash)];
    const auto used = [](const Bucket& of) {
      return kWords - static_cast<std::size_t>(std::ranges::count(of, kEmpty));
    };
    if (const auto count = used(*bucket); count >= kShared) {
      Bucket& other = buckets_[second(hash)];
      if (used(other) < count) bucket = &other;
    }
    return replace(*bucket, kEmpty, tag(hash) | (slot + 1));
  }
  void erase(std::uint64_t hash, std::uint32_t slot) {
    const std::uint32_t word = tag(hash) | (slot + 1);
    if (!replace(buckets_[first(hash)], word, kEmpty)) {
      (void)replace(buckets_[second(hash)], word, kEmpty);
    }
  }
  /// Calls `matches(slot)` for slots that may have this hash until it returns true.
  void find(std::uint64_t hash, auto&& matches) const {
    for (const std::size_t at : {first(hash), second(hash)}) {
      ++probes_;
      for (const std::uint32_t word : buckets_[at]) {
        if ((word & kTagMask) != tag(hash) || word == kEmpty) continue;
        ++probes_;
        if (matches(slot_in(word))) return;
      }
    }
  }
  /// Calls `visit(slot)` for all slots in the two buckets of the hash.
  void for_each_rival(std::uint64_t hash, auto&& visit) const {
    for (const std::size_t at : {first(hash), second(hash)}) {
      for (const std::uint32_t word : buckets_[at]) {
        if (word != kEmpty) visit(slot_in(word));
      }
    }
  }
  /// The cost of all searches so far: buckets that they have read, and calls of `matches`.
  [[nodiscard]] std::uint64_t probes() const { return probes_; }

  // --- The buckets of a hash: one by its low half, the other one by its high half --------------
  [[nodiscard]] std::size_t first(std::uint64_t hash) const {
    return share(static_cast<std::uint32_t>(hash), buckets_.size());
  }
  /// The second bucket of a hash, which is never the first one.
  [[nodiscard]] std::size_t second(std::uint64_t hash) const {
    const std::size_t distance =
        1 + share(static_cast<std::uint32_t>(hash >> 32), buckets_.size() - 1);
    return (first(hash) + distance) % buckets_.size();
  }

 private:
  static constexpr std::size_t kPerBucket = 10;  ///< words of a full table, on average
  static constexpr std::ptrdiff_t kShared = 8;  ///< from so many on, new ones go to the emptier one
  static constexpr unsigned kSlotBits = 21;
  static constexpr std::uint32_t kTagMask = ~std::uint32_t{0} << kSlotBits;
  static constexpr std::uint32_t kEmpty = 0;  ///< any other word is tag | (slot + 1)
  struct alignas(64) Bucket : std::array<std::uint32_t, kWords> {};

  /// The bits of the hash that do not select the first bucket.
  [[nodiscard]] static std::uint32_t tag(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash) << kSlotBits;
  }
  [[nodiscard]] static std::uint32_t slot_in(std::uint32_t word) { return (word & ~kTagMask) - 1; }
  /// Scales a random number to one below `count`.
  [[nodiscard]] static std::size_t share(std::uint32_t random, std::size_t count) {
    return std::uint64_t{random} * count >> 32;
  }
  static bool replace(Bucket& bucket, std::uint32_t before, std::uint32_t after) {
    const auto at = std::ranges::find(bucket, before);
    if (at == bucket.end()) return false;
    *at = after;
    return true;
  }

  std::vector<Bucket> buckets_;
  mutable std::uint64_t probes_ = 0;
};

}  // namespace ipoib::link::cache
