#include "softib/cli/capture_order.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "erf/capture_messages.hpp"

namespace softib::cli {
namespace {

using Buffer = std::vector<std::uint8_t>;
constexpr auto kEnd = std::numeric_limits<std::int64_t>::max();

Buffer message_of(std::initializer_list<std::pair<std::int64_t, std::size_t>> packets,
                  std::uint64_t lost = 0) {
  ipoib::erf::CaptureMessage message;
  for (const auto& [when, size] : packets) {
    Buffer record(ipoib::erf::kCaptureRecordHeader);
    ipoib::erf::CaptureRecord{false, when, {}}.emit_header(size, record);
    record.resize(record.size() + size, static_cast<std::uint8_t>(when));
    EXPECT_TRUE(message.add(record));
  }
  const auto bytes = message.finish(lost);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::int64_t> times(CaptureOrder& order, std::int64_t until) {
  std::vector<std::int64_t> out;
  order.take(until, [&](const CaptureOrder::Packet& packet) {
    out.push_back(packet.when);
    return true;
  });
  return out;
}

TEST(CaptureOrderTest, MergesProcesses) {
  CaptureOrder order;
  EXPECT_TRUE(order.add(message_of({{10, 20}, {30, 20}, {50, 20}}, 2)));
  EXPECT_TRUE(order.add(message_of({{20, 20}, {40, 20}}, 1)));
  EXPECT_EQ(times(order, 35), (std::vector<std::int64_t>{10, 20, 30}));
  EXPECT_EQ(times(order, 40), (std::vector<std::int64_t>{}));
  EXPECT_EQ(times(order, kEnd), (std::vector<std::int64_t>{40, 50}));
  EXPECT_EQ(order.lost(), 3U);
}

TEST(CaptureOrderTest, KeepsTheOrderOfEqualTimes) {
  CaptureOrder order;
  for (std::size_t size = 20; size < 60; ++size) ASSERT_TRUE(order.add(message_of({{7, size}})));
  std::vector<std::size_t> sizes;
  order.take(kEnd, [&](const CaptureOrder::Packet& packet) {
    sizes.push_back(packet.bytes.size());
    return true;
  });
  EXPECT_TRUE(std::ranges::is_sorted(sizes));
  EXPECT_EQ(sizes.size(), 40U);
}

TEST(CaptureOrderTest, EndsWhenItsCallerHasEnough) {
  CaptureOrder order;
  ASSERT_TRUE(order.add(message_of({{1, 20}, {2, 20}, {3, 20}})));
  int seen = 0;
  order.take(kEnd, [&](const CaptureOrder::Packet&) { return ++seen < 2; });
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(times(order, kEnd), (std::vector<std::int64_t>{3}));
}

TEST(CaptureOrderTest, RefusesMalformedMessages) {
  CaptureOrder order;
  EXPECT_FALSE(order.add(Buffer(7)));
  EXPECT_FALSE(order.add(message_of({{1, kLeastPacket - 1}})));
  EXPECT_FALSE(order.add(message_of({{1, kMostPacket + 1}})));
  auto cut = message_of({{1, 20}, {2, 20}});
  cut.pop_back();
  EXPECT_FALSE(order.add(cut));
  EXPECT_EQ(times(order, kEnd), (std::vector<std::int64_t>{1}));
}

TEST(CaptureOrderTest, IsBounded) {
  CaptureOrder order;
  std::size_t bytes = 0;
  for (int i = 0; i < 4000; ++i) {
    ASSERT_TRUE(order.add(message_of({{kEnd - 1, kMostPacket}})));
    order.take(0, [&](const CaptureOrder::Packet& packet) {
      bytes += packet.bytes.size();
      return true;
    });
  }
  EXPECT_GE(bytes, 4000 * kMostPacket - kMaxWaitingBytes);
}

}  // namespace
}  // namespace softib::cli
