#include "softib/subnet/sa_request.hpp"

namespace softib::subnet {

namespace {

bool bits_equal(ConstBytes left, ConstBytes right, std::size_t from, std::size_t count) {
  for (std::size_t bit = from; bit < from + count;) {
    const std::size_t byte = bit / 8;
    if (byte >= left.size() || byte >= right.size()) return false;
    const std::size_t begin = bit % 8;
    const std::size_t take = std::min<std::size_t>(8 - begin, from + count - bit);
    const unsigned mask = (0xffU >> begin) & (0xffU << (8 - begin - take));
    if (((left[byte] ^ right[byte]) & mask) != 0) return false;
    bit += take;
  }
  return true;
}

}  // namespace

bool components_equal(ConstBytes left, ConstBytes right, std::uint64_t mask,
                      std::span<const std::uint16_t> widths) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < widths.size() && i < 64; ++i) {
    const bool is_selected = (mask >> i & 1) != 0;
    if (is_selected && !bits_equal(left, right, at, widths[i])) return false;
    at += widths[i];
  }
  return true;
}

}  // namespace softib::subnet
