// Memory regions and their local keys. There are few, each the arena of a frame pool.
#pragma once

#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "ipoib/bytes.hpp"
#include "verbs/owners.hpp"

namespace ipoib::verbs {

class RegisteredMemory {
 public:
  /// Adds the memory region of `arena`, which outlives this.
  void add(ConstBytes arena, MemoryRegion region) {
    regions_.push_back({arena.data(), arena.data() + arena.size(), std::move(region)});
  }
  [[nodiscard]] std::uint32_t local_key(const std::uint8_t* address) const {
    for (const auto& each : regions_) {
      if (address >= each.begin && address < each.end) return each.region->lkey;
    }
    assert(false && "the pool of this frame was not registered");
    return 0;
  }

 private:
  struct Region {
    const std::uint8_t* begin;
    const std::uint8_t* end;
    MemoryRegion region;
  };
  std::vector<Region> regions_;
};

}  // namespace ipoib::verbs
