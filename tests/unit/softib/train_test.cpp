#include "softib/train.hpp"

#include <gtest/gtest.h>

#include "packets.hpp"

namespace softib {
namespace {

using test::TextPacket;

std::vector<std::uint8_t> flatten(std::span<const iovec> pieces) {
  std::vector<std::uint8_t> all;
  for (const auto& piece : pieces) {
    const auto* from = static_cast<const std::uint8_t*>(piece.iov_base);
    all.insert(all.end(), from, from + piece.iov_len);
  }
  return all;
}

class TrainTest : public testing::Test {
 protected:
  std::size_t load(std::size_t count, std::size_t text_size) {
    texts_.assign(count, TextPacket(Lid(1), Lid(2), Qpn(3), std::string(text_size, 'x')));
    packets_.clear();
    for (const auto& text : texts_) packets_.push_back(text.outgoing());
    std::vector<const OutgoingPacket*> pointers;
    for (const auto& packet : packets_) pointers.push_back(&packet);
    return train_.load(pointers);
  }
  std::vector<TextPacket> texts_;
  std::vector<OutgoingPacket> packets_;
  Train train_;
};

TEST_F(TrainTest, WhatWasLoadedIsUnloaded) {
  ASSERT_EQ(load(10, 101), 10U);
  const auto message = flatten(train_.pieces());
  std::vector<ConstBytes> packets;
  ASSERT_TRUE(unload(message, packets));
  ASSERT_EQ(packets.size(), 10U);
  for (const auto& packet : packets) {
    EXPECT_EQ(packet.size(), size_of(packets_[0]));
    EXPECT_EQ(ipoib::wire::UdPacket::parse(packet)->payload.size(), 101U);
  }
}

TEST_F(TrainTest, IsBoundedByOctets) {
  const std::size_t loaded = load(64, 4096);
  EXPECT_EQ(loaded, kMaxTrainOctets / size_of(packets_[0]));
  EXPECT_LE(flatten(train_.pieces()).size(), kMaxTrainOctets);
}

TEST_F(TrainTest, IsBoundedByPackets) { EXPECT_EQ(load(100, 4), kMaxTrainPackets); }

TEST_F(TrainTest, ANudgeIsNoPacket) {
  const std::array<std::uint8_t, 1> nudge{};
  std::vector<ConstBytes> packets;
  EXPECT_TRUE(unload(nudge, packets));
  EXPECT_TRUE(packets.empty());
}

TEST_F(TrainTest, AMessageThatEndsTooSoonLosesItsLastPacket) {
  load(3, 100);
  auto message = flatten(train_.pieces());
  message.pop_back();
  std::vector<ConstBytes> packets;
  EXPECT_FALSE(unload(message, packets));
  EXPECT_EQ(packets.size(), 2U);
}

TEST_F(TrainTest, LengthsThatHoldNoPacketEndIt) {
  load(1, 100);
  auto message = flatten(train_.pieces());
  message[4] = message[5] = 0;  // LRH, PktLen
  std::vector<ConstBytes> packets;
  EXPECT_FALSE(unload(message, packets));
  EXPECT_TRUE(packets.empty());
}

}  // namespace
}  // namespace softib
