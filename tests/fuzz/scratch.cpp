#include <algorithm>
#include <cstring>

#include "require.hpp"

namespace ipoib {

namespace {

std::array<std::uint8_t, kMaxScratch> buffer;

MutableBytes room_for(std::size_t size) {
  require(size <= buffer.size());
  return MutableBytes(buffer).last(size);
}

}  // namespace

MutableBytes scratch(std::size_t size) {
  const MutableBytes room = room_for(size);
  std::memset(room.data(), 0, size);
  return room;
}

MutableBytes scratch_copy(ConstBytes bytes, ConstBytes more) {
  const MutableBytes room = room_for(bytes.size() + more.size());
  std::ranges::copy(more, std::ranges::copy(bytes, room.begin()).out);
  return room;
}

}  // namespace ipoib
