// The deadlines of many handles, in order.
#pragma once

#include <optional>
#include <set>
#include <utility>

#include "ipoib/time.hpp"
#include "softib/cm/events.hpp"

namespace softib::cm {

class Deadlines {
 public:
  /// Replaces the deadline `was` of a handle, and stores the new one in it; kNever stands for none.
  void move(Handle handle, ipoib::TimePoint& was, ipoib::TimePoint next) {
    if (was == next) return;
    if (was != ipoib::kNever) order_.erase({was, handle});
    if (next != ipoib::kNever) order_.emplace(next, handle);
    was = next;
  }
  [[nodiscard]] ipoib::TimePoint next() const {
    return order_.empty() ? ipoib::kNever : order_.begin()->first;
  }
  /// The first handle whose deadline has come.
  [[nodiscard]] std::optional<Handle> expired(ipoib::TimePoint now) const {
    return next() <= now && !order_.empty() ? std::optional(order_.begin()->second) : std::nullopt;
  }

 private:
  std::set<std::pair<ipoib::TimePoint, Handle>> order_;
};

}  // namespace softib::cm
