// RmppSender, with hand-written ACKs.
#include "softib/core/rmpp_sender.hpp"

#include <gtest/gtest.h>

namespace softib {
namespace {

using ipoib::wire::kMadHeaderSize;
using ipoib::wire::kSaHeaderSize;
using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;
using Outcome = RmppSender::Outcome;

RmppHeader rmpp_of(const RmppSender::Mad& mad) {
  return RmppHeader::parse(ConstBytes(mad).subspan(kMadHeaderSize)).value();
}

class RmppSenderTest : public ::testing::Test {
 protected:
  Outcome acknowledge(std::uint32_t segment, std::uint32_t window_last) {
    return receive_ack(segment, window_last).outcome;
  }
  RmppStatus rejection(std::uint32_t segment, std::uint32_t window_last) {
    const auto result = receive_ack(segment, window_last);
    EXPECT_EQ(result.outcome, Outcome::invalid);
    return result.status;
  }
  RmppSender::ReceiveResult receive_ack(std::uint32_t segment, std::uint32_t window_last) {
    RmppHeader ack;
    ack.type = RmppType::ack;
    ack.flags = RmppHeader::kActive;
    ack.data1 = segment;
    ack.data2 = window_last;
    return sender.receive(ack);
  }
  std::vector<std::uint32_t> sent() {
    std::vector<std::uint32_t> numbers;
    for (const auto& mad : sender.sendable()) numbers.push_back(rmpp_of(mad).data1);
    return numbers;
  }
  using Numbers = std::vector<std::uint32_t>;

  /// 1050 bytes of data: five segments of 200 bytes, and one of 50.
  RmppSender sender{std::vector<std::uint8_t>(kSaHeaderSize + 1050), kSaHeaderSize};
};

TEST_F(RmppSenderTest, FirstSegmentIsSentAloneWithTheTotalLength) {
  const auto first = sender.sendable();
  ASSERT_EQ(first.size(), 1U);
  const auto rmpp = rmpp_of(first[0]);
  EXPECT_EQ(rmpp.type, RmppType::data);
  EXPECT_EQ(rmpp.flags, RmppHeader::kActive | RmppHeader::kFirst);
  EXPECT_EQ(rmpp.data1, 1U);
  EXPECT_EQ(rmpp.data2, 6 * 20 + 1050U) << "includes the SA header of each segment";
  EXPECT_TRUE(sender.sendable().empty());
}

TEST_F(RmppSenderTest, LastSegmentHasItsOwnLength) {
  (void)sender.sendable();
  EXPECT_EQ(acknowledge(1, 10), Outcome::progress);
  const auto last = rmpp_of(sender.sendable().back());
  EXPECT_EQ(last.flags, RmppHeader::kActive | RmppHeader::kLast);
  EXPECT_EQ(last.data2, 20 + 50U);
}

TEST_F(RmppSenderTest, AcknowledgementsMoveTheWindow) {
  EXPECT_EQ(sent(), Numbers{1});
  EXPECT_EQ(acknowledge(1, 3), Outcome::progress);
  EXPECT_EQ(sent(), (Numbers{2, 3}));
  EXPECT_EQ(acknowledge(2, 5), Outcome::progress);
  EXPECT_EQ(sent(), (Numbers{4, 5}));
  EXPECT_EQ(acknowledge(5, 6), Outcome::progress);
  EXPECT_EQ(sent(), Numbers{6});
  EXPECT_EQ(acknowledge(6, 6), Outcome::progress);
  EXPECT_TRUE(sender.is_done());
}

TEST_F(RmppSenderTest, IgnoresReorderedAcknowledgements) {
  (void)sent();
  EXPECT_EQ(acknowledge(1, 5), Outcome::progress);
  (void)sent();
  EXPECT_EQ(acknowledge(4, 6), Outcome::progress);
  EXPECT_EQ(acknowledge(3, 6), Outcome::ignored);
  EXPECT_EQ(acknowledge(4, 6), Outcome::ignored);
  EXPECT_EQ(acknowledge(2, 4), Outcome::ignored);
  EXPECT_EQ(sender.rewind(), 1U);
}

TEST_F(RmppSenderTest, AcceptsAcknowledgementsOfSegmentsSentBeforeARestart) {
  (void)sent();
  (void)acknowledge(1, 6);
  (void)sent();
  sender.restart();
  EXPECT_EQ(sent(), Numbers{1});
  EXPECT_EQ(acknowledge(4, 6), Outcome::progress);
  EXPECT_EQ(sent(), (Numbers{5, 6})) << "acknowledged segments are not sent again";
  EXPECT_EQ(acknowledge(6, 6), Outcome::progress);
  EXPECT_TRUE(sender.is_done());
}

TEST_F(RmppSenderTest, RejectsInvalidAcknowledgements) {
  (void)sent();
  EXPECT_EQ(rejection(2, 10), RmppStatus::segment_too_big) << "never sent";
  EXPECT_EQ(rejection(1, 0), RmppStatus::window_too_small);
  EXPECT_EQ(rejection(1, 2 + RmppSender::kMaxWindow), RmppStatus::unspecified);
  RmppHeader other;
  other.type = RmppType::data;
  EXPECT_EQ(sender.receive(other).status, RmppStatus::unsupported_type);
  other.type = RmppType::ack;
  other.version = 2;
  EXPECT_EQ(sender.receive(other).status, RmppStatus::unsupported_version);
  EXPECT_EQ(acknowledge(1, 3), Outcome::progress) << "invalid ACKs changed nothing";
  EXPECT_EQ(sent(), (Numbers{2, 3}));
}

TEST_F(RmppSenderTest, StopAndAbortEndTheTransfer) {
  RmppHeader end;
  for (const auto type : {RmppType::stop, RmppType::abort}) {
    end.type = type;
    EXPECT_EQ(sender.receive(end).outcome, Outcome::ended);
  }
  const auto abort = rmpp_of(sender.abort(RmppStatus::too_many_retries));
  EXPECT_EQ(abort.type, RmppType::abort);
  EXPECT_EQ(abort.flags, RmppHeader::kActive);
  EXPECT_EQ(abort.status, 126);
}

}  // namespace
}  // namespace softib
