#include <algorithm>

#include "require.hpp"

namespace ipoib {

namespace {
std::array<std::uint8_t, kMaxScratch> buffer;
}

MutableBytes scratch(std::size_t size) {
  require(size <= buffer.size());
  const auto room = MutableBytes(buffer).last(size);
  std::ranges::fill(room, std::uint8_t{0});
  return room;
}

}  // namespace ipoib
