#include "softib/roce/receive_buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace softib::roce {
namespace {

std::vector<std::uint8_t> content(std::size_t bytes) {
  std::vector<std::uint8_t> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return out;
}

/// Writes as the kernel does.
void receive(ReceiveBuffer& buffer, ConstBytes bytes, std::size_t size) {
  auto left = bytes;
  for (const auto& place : buffer.places()) {
    const auto part = left.first(std::min(place.iov_len, left.size()));
    std::ranges::copy(part, static_cast<std::uint8_t*>(place.iov_base));
    left = left.subspan(part.size());
  }
  ASSERT_TRUE(left.empty());
  buffer.arrange(bytes.size(), size);
}

/// The route of each datagram is written before the datagrams are read.
void expect_datagrams(ReceiveBuffer& buffer, ConstBytes bytes, std::size_t size) {
  ASSERT_EQ(buffer.count(), (bytes.size() + size - 1) / size);
  for (std::size_t i = 0; i < buffer.count(); ++i) {
    std::fill_n(buffer.datagram(i).data() - kRouteBytes, kRouteBytes, std::uint8_t{0xaa});
  }
  for (std::size_t i = 0; i < buffer.count(); ++i) {
    const auto rest = bytes.subspan(i * size);
    const auto expected = rest.first(std::min(size, rest.size()));
    EXPECT_TRUE(std::ranges::equal(buffer.datagram(i), expected)) << i << " of " << size;
  }
}

TEST(ReceiveBufferTest, DatagramsOfAnySizesAreWhole) {
  ReceiveBuffer buffer;
  for (const auto& [bytes, size] : {std::pair<std::size_t, std::size_t>{61'680, 4112},
                                    {61'680, 4112},
                                    {4128, 4128},
                                    {16, 16},
                                    {65'536, 4096},
                                    {65'536, 1024},
                                    {8000, 2000},
                                    {65'536, 16},
                                    {9001, 3000},
                                    {65'507, 65'507},
                                    {61'680, 4112}}) {
    const auto all = content(bytes);
    receive(buffer, all, size);
    expect_datagrams(buffer, all, size);
  }
}

TEST(ReceiveBufferTest, DatagramsOfTheSizeBeforeAreInTheirPlacesAtOnce) {
  ReceiveBuffer buffer;
  receive(buffer, content(12'336), 4112);
  const auto places = buffer.places();
  ASSERT_GE(places.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(places[i].iov_len, 4112U);
    EXPECT_EQ(places[i].iov_base, buffer.datagram(i).data()) << i;
  }
}

// A single datagram says nothing about those that come together.
TEST(ReceiveBufferTest, ASingleDatagramChangesNoPlaces) {
  ReceiveBuffer buffer;
  receive(buffer, content(12'336), 4112);
  receive(buffer, content(4128), 4128);
  EXPECT_EQ(buffer.places().front().iov_len, 4112U);
}

}  // namespace
}  // namespace softib::roce
