// The work that a step of a fuzz target causes. It is counted, not timed, so it is the same on each
// machine: one for each edge between basic blocks that this thread has run through in the code
// under test (clang's trace-pc-guard).
#pragma once

#include <cstdint>

#include "require.hpp"

namespace ipoib {

/// Of the calling thread, since its start.
[[nodiscard]] std::uint64_t work_done();

/// Fails if more work than `most` for each of `things`, such as the packets of a batch, is done
/// while it exists. The limit is some times what the most expensive step of long runs costs: a step
/// that scans a whole table, or a loop that strangers can prolong, exceeds it by far.
class CostLimit {
 public:
  explicit CostLimit(std::uint64_t most, std::uint64_t things = 1)
      : most_(most), things_(things), begin_(work_done()) {}
  CostLimit(const CostLimit&) = delete;
  CostLimit& operator=(const CostLimit&) = delete;
  ~CostLimit();

 private:
  const std::uint64_t most_;
  const std::uint64_t things_;
  const std::uint64_t begin_;
};

}  // namespace ipoib
