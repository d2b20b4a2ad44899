#include "wire/congestion_notification.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ipoib::wire {
namespace {

std::vector<std::uint8_t> a_notification() {
  CongestionNotification packet;
  packet.bth.pkey = kDefaultPKey;
  packet.bth.destination = Qpn(0x123456);
  auto& grh = packet.grh.emplace();
  grh.sgid = Gid(1, Guid(2));
  grh.dgid = Gid(3, Guid(4));
  std::vector<std::uint8_t> bytes(CongestionNotification::kSize);
  EXPECT_EQ(packet.emit(bytes), bytes.size());
  return bytes;
}

// IBA annex A17.9.3: opcode 0x81, BECN, 16 reserved bytes.
TEST(CongestionNotification, HasItsLayout) {
  const auto bytes = a_notification();
  constexpr std::size_t kBth = Lrh::kSize + Grh::kSize;
  EXPECT_EQ(bytes[kBth], 0x81);
  EXPECT_EQ(bytes[kBth + 4], 0x40);
  EXPECT_EQ(bytes[kBth + 5], 0x12);
  EXPECT_EQ(bytes.size(), kBth + 12 + 16);
  const auto parsed = CongestionNotification::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->bth.destination, Qpn(0x123456));
  EXPECT_EQ(parsed->grh->sgid, Gid(1, Guid(2)));
}

TEST(CongestionNotification, OtherPacketsAreNone) {
  constexpr std::size_t kBth = Lrh::kSize + Grh::kSize;
  for (const auto& [at, value] : {std::pair{kBth, 0x11}, {kBth + 4, 0x80}}) {
    auto bytes = a_notification();
    bytes[at] = static_cast<std::uint8_t>(value);
    EXPECT_FALSE(CongestionNotification::parse(bytes)) << at;
  }
  auto bytes = a_notification();
  for (; !bytes.empty(); bytes.pop_back()) {
    EXPECT_EQ(CongestionNotification::parse(bytes).has_value(),
              bytes.size() == CongestionNotification::kSize);
  }
}

TEST(CongestionNotification, TrafficClassesOfEcn) {
  EXPECT_TRUE(is_marked(0x6b));
  EXPECT_FALSE(is_marked(0x6a));
  EXPECT_EQ(markable(0x68), 0x6a);
  EXPECT_EQ(markable(0x69), 0x69);
}

}  // namespace
}  // namespace ipoib::wire
