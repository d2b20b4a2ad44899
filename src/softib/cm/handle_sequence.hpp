// The handles of a process, in turn: each is used again as late as possible, since late messages
// may name it.
#pragma once

#include <cstdint>

#include "softib/cm/events.hpp"

namespace softib::cm {

class HandleSequence {
 public:
  HandleSequence(std::uint32_t epoch, std::uint32_t slot) : epoch_(epoch), slot_(slot) {}

  /// Returns the next free handle. Requires that fewer than CommIdLayout::kIndices are in use.
  template <class IsUsed>
  [[nodiscard]] Handle next(IsUsed&& is_used) {
    for (;;) {
      const Handle handle = CommIdLayout::make(epoch_, slot_, index_);
      index_ = (index_ + 1) % CommIdLayout::kIndices;
      if (!is_used(handle)) return handle;
    }
  }

 private:
  const std::uint32_t epoch_;
  const std::uint32_t slot_;
  std::uint32_t index_ = 0;
};

}  // namespace softib::cm
