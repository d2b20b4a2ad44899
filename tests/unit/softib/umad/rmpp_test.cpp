#include "softib/umad/rmpp.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace softib::umad {
namespace {

using ipoib::wire::kMadHeaderSize;
using ipoib::wire::kSaHeaderSize;
using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;
using Outcome = RmppReceiver::Outcome;

/// An SA message with `size` bytes of data, which count up.
std::vector<std::uint8_t> make_message(std::size_t size) {
  std::vector<std::uint8_t> message(kSaHeaderSize + size);
  std::iota(message.begin() + kSaHeaderSize, message.end(), std::uint8_t{1});
  MadHeader header;
  header.management_class = ipoib::wire::mgmt_class::kSubnAdm;
  header.class_version = 2;
  header.method = ipoib::wire::method::kGetTableResp;
  header.transaction_id = 42;
  header.emit(message);
  message[kMadHeaderSize] = 1;  // RMPP version
  return message;
}

RmppHeader rmpp_of(const Mad& mad) {
  return RmppHeader::parse(ConstBytes(mad).subspan(kMadHeaderSize)).value();
}

std::vector<std::uint8_t> data_of(const std::vector<std::uint8_t>& message) {
  return {message.begin() + kSaHeaderSize, message.end()};
}

/// Exchanges segments and ACKs until the sender is done. Returns the number of segments.
std::size_t transfer(RmppSender& sender, RmppReceiver& receiver) {
  std::size_t count = 0;
  while (!sender.is_done()) {
    for (const auto& segment : sender.sendable()) {
      ++count;
      const auto outcome = receiver.accept(segment);
      EXPECT_NE(outcome, Outcome::abort);
      if (outcome == Outcome::nothing) continue;
      const auto ack = rmpp_of(receiver.acknowledgement(segment));
      EXPECT_EQ(ack.type, RmppType::ack);
      EXPECT_EQ(sender.receive(ack).outcome, RmppSender::Outcome::progress);
    }
  }
  return count;
}

TEST(Rmpp, TransfersMessagesOfAnyLength) {
  for (const std::size_t size : {0, 1, 199, 200, 201, 399, 400, 401, 20'000, 100'001}) {
    const auto message = make_message(size);
    RmppSender sender(message, kSaHeaderSize);
    RmppReceiver receiver;
    EXPECT_EQ(transfer(sender, receiver), std::max<std::size_t>((size + 199) / 200, 1));
    EXPECT_TRUE(receiver.is_complete());
    EXPECT_EQ(data_of(receiver.take_message()), data_of(message)) << size;
  }
}

TEST(Rmpp, SendsTheAckInTheOtherDirection) {
  RmppSender sender(make_message(1000), kSaHeaderSize);
  const auto first = sender.sendable().at(0);
  RmppReceiver receiver;
  EXPECT_EQ(receiver.accept(first), Outcome::acknowledge);
  const auto ack = receiver.acknowledgement(first);
  const auto header = MadHeader::parse(ack).value();
  EXPECT_EQ(header.method, ipoib::wire::method::kGetTable);
  EXPECT_EQ(header.transaction_id, 42U);
  EXPECT_EQ(rmpp_of(ack).data1, 1U);
  EXPECT_EQ(rmpp_of(ack).data2, 1 + kRmppWindow);
}

TEST(Rmpp, AcknowledgesADuplicateSegment) {
  RmppSender sender(make_message(1000), kSaHeaderSize);
  const auto first = sender.sendable().at(0);
  RmppReceiver receiver;
  EXPECT_EQ(receiver.accept(first), Outcome::acknowledge);
  EXPECT_EQ(receiver.accept(first), Outcome::acknowledge);
  (void)sender.receive(rmpp_of(receiver.acknowledgement(first)));
  for (const auto& segment : sender.sendable()) (void)receiver.accept(segment);
  EXPECT_EQ(data_of(receiver.take_message()), data_of(make_message(1000)));
}

TEST(Rmpp, DropsSegmentsAfterAGap) {
  RmppSender sender(make_message(1000), kSaHeaderSize);
  RmppReceiver receiver;
  const auto first = sender.sendable().at(0);
  (void)receiver.accept(first);
  (void)sender.receive(rmpp_of(receiver.acknowledgement(first)));
  auto rest = sender.sendable();
  ASSERT_EQ(rest.size(), 4U);
  EXPECT_EQ(receiver.accept(rest[1]), Outcome::nothing);  // the second one is lost
  EXPECT_EQ(sender.rewind(), 4U);
  rest = sender.sendable();
  ASSERT_EQ(rest.size(), 4U);
  EXPECT_EQ(receiver.accept(rest[0]), Outcome::nothing);
  EXPECT_EQ(receiver.accept(rest[1]), Outcome::nothing);
  EXPECT_EQ(receiver.accept(rest[2]), Outcome::nothing);
  EXPECT_EQ(receiver.accept(rest[3]), Outcome::complete);
  EXPECT_EQ(data_of(receiver.take_message()), data_of(make_message(1000)));
}

TEST(Rmpp, CompletesOnce) {
  RmppSender sender(make_message(10), kSaHeaderSize);
  RmppReceiver receiver;
  const auto only = sender.sendable().at(0);
  EXPECT_EQ(receiver.accept(only), Outcome::complete);
  EXPECT_EQ(receiver.accept(only), Outcome::acknowledge);
}

TEST(Rmpp, AbortsOnInconsistentSegments) {
  const auto with = [](std::uint8_t flags, std::uint32_t number) {
    Mad mad = RmppSender(make_message(1000), kSaHeaderSize).sendable().at(0);
    auto rmpp = rmpp_of(mad);
    rmpp.flags = flags;
    rmpp.data1 = number;
    rmpp.emit(std::span(mad).subspan(kMadHeaderSize));
    return mad;
  };
  const std::uint8_t first = RmppHeader::kActive | RmppHeader::kFirst;
  EXPECT_EQ(RmppReceiver().accept(with(first, 0)), Outcome::abort);
  EXPECT_EQ(RmppReceiver().accept(with(first, 2)), Outcome::abort);
  EXPECT_EQ(RmppReceiver().accept(with(RmppHeader::kActive, 1)), Outcome::abort);
  EXPECT_EQ(RmppReceiver().accept(with(RmppHeader::kActive, kMaxRmppSegments + 1)), Outcome::abort);
  const auto abort = rmpp_abort(with(first, 1), RmppStatus::bad_segment);
  EXPECT_EQ(rmpp_of(abort).type, RmppType::abort);
  EXPECT_EQ(rmpp_of(abort).status, 120);
}

TEST(Rmpp, TakesAnInvalidLengthAsTheWholeSegment) {
  Mad mad = RmppSender(make_message(100), kSaHeaderSize).sendable().at(0);
  auto rmpp = rmpp_of(mad);
  for (const std::uint32_t length : {0U, 19U, 221U, 0xffff'ffffU}) {
    rmpp.data2 = length;
    rmpp.emit(std::span(mad).subspan(kMadHeaderSize));
    RmppReceiver receiver;
    EXPECT_EQ(receiver.accept(mad), Outcome::complete);
    EXPECT_EQ(receiver.take_message().size(), mad.size()) << length;
  }
}

}  // namespace
}  // namespace softib::umad
