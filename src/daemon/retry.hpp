// What could not be looked at is looked at again: soon, then ever more rarely. A row of failures is
// told of once.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "ipoib/time.hpp"

namespace ipoib::daemon {

class Retry {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(100);
  static constexpr Duration kLast = std::chrono::seconds(10);

  /// Notes a failure; true for the first of a row.
  [[nodiscard]] bool failed() {
    pause_ = is_failing() ? std::min(2 * pause_, kLast) : kFirst;
    return pause_ == kFirst;
  }
  /// Notes a success; true when it ends a row of failures.
  [[nodiscard]] bool succeeded() { return std::exchange(pause_, Duration::zero()) > Duration(0); }

  [[nodiscard]] bool is_failing() const { return pause_ > Duration::zero(); }
  /// From the last failure to the next attempt.
  [[nodiscard]] Duration pause() const { return pause_; }

 private:
  Duration pause_{};
};

}  // namespace ipoib::daemon
