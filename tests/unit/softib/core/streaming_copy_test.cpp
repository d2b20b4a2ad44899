#include "softib/core/streaming_copy.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace softib {
namespace {

constexpr std::size_t kLine = 64;

/// At each offset in a cache line, and nothing beyond.
TEST(StreamingCopyTest, CopiesAnySizeAtAnyPlace) {
  std::vector<std::uint8_t> from(6 * kLine);
  std::iota(from.begin(), from.end(), std::uint8_t{1});
  std::vector<std::uint8_t> to(from.size());
  for (std::size_t size = 0; size <= 4 * kLine; size += size < 2 * kLine ? 1 : 23) {
    for (std::size_t at = 0; at < kLine; ++at) {
      auto expected = std::vector<std::uint8_t>(to.size());
      std::copy_n(from.begin() + 3, size, expected.begin() + static_cast<std::ptrdiff_t>(at));
      std::fill(to.begin(), to.end(), std::uint8_t{0});
      streaming_copy(to.data() + at, from.data() + 3, size);
      ASSERT_EQ(to, expected) << size << " bytes at " << at;
    }
  }
}

}  // namespace
}  // namespace softib
