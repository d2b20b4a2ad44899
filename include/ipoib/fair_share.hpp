// Who has how many entries of a bounded table, among holders that do not trust each other.
//
// A rate limits how often something happens; an entry stays for as long as its holder likes.
// A holder may take another one only while more are free than it has ("dynamic threshold",
// Choudhury and Hahne 1998). So one holder gets at most half of the entries. If n holders take all
// that they get, each has a part of 1 / (n + 1), and as much stays free: whoever has few finds
// room.
#pragma once

#include <cstddef>
#include <map>

namespace ipoib {

/// Whether a holder of `held` entries may take another one of those that are free.
[[nodiscard]] constexpr bool has_fair_share_left(std::size_t held, std::size_t free) {
  return held < free;
}

/// `Holder` is a value with an order.
template <class Holder>
class FairShare {
 public:
  explicit FairShare(std::size_t entries) : free_(entries) {}

  [[nodiscard]] bool has_room_for(const Holder& holder) const {
    return has_fair_share_left(held_by(holder), free_);
  }
  /// Returns false if the holder may not have another entry.
  [[nodiscard]] bool take(const Holder& holder) {
    if (!has_room_for(holder)) return false;
    ++held_[holder];
    --free_;
    return true;
  }
  /// Requires that the holder has an entry.
  void give_back(const Holder& holder) {
    const auto found = held_.find(holder);
    if (--found->second == 0) held_.erase(found);
    ++free_;
  }
  [[nodiscard]] std::size_t held_by(const Holder& holder) const {
    const auto found = held_.find(holder);
    return found == held_.end() ? 0 : found->second;
  }
  [[nodiscard]] std::size_t free() const { return free_; }

 private:
  std::size_t free_;
  std::map<Holder, std::size_t> held_;  ///< without holders that have none
};

}  // namespace ipoib
