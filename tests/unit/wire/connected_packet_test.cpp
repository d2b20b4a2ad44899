#include "wire/connected_packet.hpp"

#include <map>

#include "golden.hpp"

namespace ipoib::wire {
namespace {

using std::chrono::microseconds;

TEST(Psn, WrapsAfter24Bits) {
  EXPECT_EQ((Psn(0xffffff) + 1).value(), 0U);
  EXPECT_EQ(Psn(0).previous().value(), 0xffffffU);
  EXPECT_EQ(Psn(0x1000005).value(), 5U);
  EXPECT_EQ(Psn(2) - Psn(0xfffffe), 4);
  EXPECT_EQ(Psn(0xfffffe) - Psn(2), -4);
  EXPECT_EQ(Psn(0x7fffff) - Psn(0), 0x7fffff);
  EXPECT_EQ(Psn(0x800000) - Psn(0), -0x800000);
}

ConnectedPacket packet(ConnectedOpcode opcode) {
  ConnectedPacket out;
  out.lrh.dlid = Lid(5);
  out.lrh.slid = Lid(4);
  out.bth.pkey = kDefaultPKey;
  out.bth.destination = Qpn(0x801);
  out.bth.psn = Psn(9);
  out.opcode = opcode;
  return out;
}

std::vector<std::uint8_t> assemble(ConnectedPacket packet,
                                   const std::vector<std::uint8_t>& payload = {}) {
  std::vector<std::uint8_t> bytes(ConnectedPacket::kMaxHeaderSize);
  bytes.resize(packet.emit_headers(payload.size(), bytes));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  bytes.resize(bytes.size() + packet.bth.pad);
  return bytes;
}

TEST(ConnectedPacket, WriteWithImmediateHasTheLayoutOfIba) {
  auto write = packet(ConnectedOpcode::write_only_immediate);
  write.bth.solicited = true;
  write.bth.ack_request = true;
  write.reth = {0x1122334455667788, 0xaabbccdd, 5};
  write.immediate = 0xdeadbeef;
  const auto bytes = assemble(write, from_hex("01 02 03 04 05"));
  EXPECT_EQ(bytes, from_hex("00 02 0005 000d 0004"            // 13 words with the ICRC
                            "0b b0 ffff 00 000801 80 000009"  // 3 bytes of padding
                            "1122334455667788 aabbccdd 00000005 deadbeef 0102030405 000000"));
  const auto parsed = ConnectedPacket::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->opcode, ConnectedOpcode::write_only_immediate);
  EXPECT_EQ(parsed->reth, write.reth);
  EXPECT_EQ(parsed->immediate, write.immediate);
  EXPECT_TRUE(parsed->bth.solicited && parsed->bth.ack_request);
  EXPECT_EQ(std::vector(parsed->payload.begin(), parsed->payload.end()), from_hex("0102030405"));
}

TEST(ConnectedPacket, TheUnreliableServiceHasSendAndWrite) {
  auto send = packet(ConnectedOpcode::send_only);
  send.service = ConnectedService::unreliable;
  auto bytes = assemble(send, from_hex("01 02 03 04"));
  EXPECT_EQ(bytes, from_hex("00 02 0005 0007 0004  24 00 ffff 00 000801 00 000009  01020304"));
  for (unsigned opcode = 0; opcode <= 0xff; ++opcode) {
    SCOPED_TRACE(opcode);
    auto with = packet(static_cast<ConnectedOpcode>(opcode & 0x1f));
    with.service = static_cast<ConnectedService>(opcode >> 5);
    const auto operation = opcode & 0x1f;
    const bool is_reliable = (opcode & ~0x1fU) == 0 || (opcode & ~0x1fU) == 0xa0;
    const bool is_invalidate = operation == 0x16 || operation == 0x17;
    const bool is_known =
        (is_reliable && (operation <= 0x14 || is_invalidate || operation == 0x1d)) ||
        (opcode >= 0x20 && opcode <= 0x2b);
    if (operation <= 0x14 || is_known) {
      const auto parsed = ConnectedPacket::parse(assemble(with));
      ASSERT_EQ(parsed.has_value(), is_known);
      if (is_known) {
        EXPECT_EQ(parsed->service, with.service);
        EXPECT_EQ(parsed->opcode, with.opcode);
      }
    } else {
      bytes[8] = static_cast<std::uint8_t>(opcode);
      EXPECT_FALSE(ConnectedPacket::parse(bytes));
    }
  }
}

TEST(ConnectedPacket, SendWithInvalidateHasTheLayoutOfIba) {
  auto send = packet(ConnectedOpcode::send_only_invalidate);
  send.invalidated_key = 0xaabbccdd;
  const auto bytes = assemble(send, from_hex("01 02 03 04"));
  EXPECT_EQ(bytes,
            from_hex("00 02 0005 0008 0004  17 00 ffff 00 000801 00 000009  aabbccdd 01020304"));
  const auto parsed = ConnectedPacket::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->invalidated_key, 0xaabbccddU);
  EXPECT_EQ(parsed->payload.size(), 4U);
  EXPECT_FALSE(ConnectedPacket::parse(ConstBytes(bytes).first(22))) << "half of the key";
}

TEST(ConnectedPacket, AtomicWriteHasTheLayoutOfIba) {
  auto write = packet(ConnectedOpcode::atomic_write);
  write.reth = {0x1122334455667788, 0xaabbccdd, 8};
  const auto bytes = assemble(write, from_hex("0102030405060708"));
  EXPECT_EQ(bytes, from_hex("00 02 0005 000c 0004  1d 00 ffff 00 000801 00 000009"
                            "1122334455667788 aabbccdd 00000008 0102030405060708"));
  EXPECT_EQ(ConnectedPacket::parse(bytes)->reth, write.reth);
}

TEST(ConnectedPacket, RequestsOfTheExtendedServiceNameASharedQueue) {
  auto write = packet(ConnectedOpcode::write_last_immediate);
  write.service = ConnectedService::extended;
  write.shared_queue = 0x123456;
  write.immediate = 0xdeadbeef;
  auto bytes = assemble(write, from_hex("01 02 03 04"));
  EXPECT_EQ(bytes, from_hex("00 02 0005 0009 0004  a9 00 ffff 00 000801 00 000009"
                            "00123456 deadbeef 01020304"));
  EXPECT_EQ(ConnectedPacket::parse(bytes)->shared_queue, 0x123456U);
  bytes[20] = 0xff;  // reserved
  EXPECT_EQ(ConnectedPacket::parse(bytes)->shared_queue, 0x123456U);

  auto swap = packet(ConnectedOpcode::compare_swap);
  swap.service = ConnectedService::extended;
  swap.shared_queue = 7;
  swap.atomic = {0x1122334455667788, 0xaabbccdd, 0x0102030405060708, 0x1112131415161718};
  const auto request = assemble(swap);
  EXPECT_EQ(request, from_hex("00 02 0005 000e 0004  b3 00 ffff 00 000801 00 000009  00000007"
                              "1122334455667788 aabbccdd 0102030405060708 1112131415161718"));
  EXPECT_EQ(ConnectedPacket::parse(request)->atomic, swap.atomic);

  using enum ConnectedOpcode;
  for (const auto opcode :
       {acknowledge, atomic_acknowledge, read_response_first, read_response_only}) {
    auto response = packet(opcode);
    const auto plain = assemble(response);
    response.service = ConnectedService::extended;
    response.shared_queue = 7;
    const auto extended = assemble(response);
    EXPECT_EQ(extended.size(), plain.size()) << "responses do not";
    EXPECT_EQ(ConnectedPacket::parse(extended)->shared_queue, 0U);
  }
}

TEST(ConnectedPacket, BeginningsAndEndsOfMessages) {
  using enum ConnectedOpcode;
  for (const auto opcode :
       {send_first, write_first, send_only, write_only_immediate, read_request}) {
    EXPECT_TRUE(begins_message(opcode));
  }
  for (const auto opcode : {send_middle, send_last, write_middle, write_last_immediate}) {
    EXPECT_FALSE(begins_message(opcode));
  }
  EXPECT_TRUE(begins_message(send_only_invalidate) && !begins_message(send_last_invalidate));
  EXPECT_TRUE(ends_message(send_only_invalidate) && ends_message(send_last_invalidate));
  EXPECT_TRUE(is_send(send_only_invalidate) && is_send(send_last_invalidate));
  EXPECT_TRUE(has_invalidate(send_only_invalidate) && !has_invalidate(send_only_immediate));
  EXPECT_FALSE(is_write(atomic_write) || is_send(atomic_write) || is_atomic(atomic_write));
  EXPECT_TRUE(is_send(send_only_immediate) && is_write(write_first) &&
              is_write(write_only_immediate));
  EXPECT_FALSE(is_send(write_first) || is_write(send_only_immediate) || is_write(read_request));
}

TEST(ConnectedPacket, PartsOfMessages) {
  using enum ConnectedOpcode;
  EXPECT_EQ(opcode_of_part(send_only, true, true), send_only);
  EXPECT_EQ(opcode_of_part(send_only_immediate, true, false), send_first);
  EXPECT_EQ(opcode_of_part(write_only, false, false), write_middle);
  EXPECT_EQ(opcode_of_part(write_only_immediate, false, true), write_last_immediate);
  EXPECT_EQ(opcode_of_part(send_only_invalidate, false, true), send_last_invalidate);
  EXPECT_EQ(opcode_of_part(write_last, true, false), write_middle) << "it had begun before";
  EXPECT_EQ(opcode_of_part(send_first, false, true), send_middle) << "it goes on";
  EXPECT_EQ(opcode_of_part(read_response_only, false, true), read_response_last);
}

TEST(ConnectedPacket, AcknowledgeHasTheLayoutOfIba) {
  auto nak = packet(ConnectedOpcode::acknowledge);
  nak.aeth = {Aeth::Kind::nak, Aeth::kRemoteAccessError, 0x123456};
  const auto bytes = assemble(nak);
  EXPECT_EQ(bytes, from_hex("00 02 0005 0007 0004  11 00 ffff 00 000801 00 000009  62 123456"));
  const auto parsed = ConnectedPacket::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->aeth, nak.aeth);
  nak.aeth = {Aeth::Kind::rnr_nak, 12, 1};
  EXPECT_EQ(assemble(nak).at(20), 0x2c);
  nak.aeth = {};
  EXPECT_EQ(assemble(nak).at(20), 0x1f) << "an acknowledgement without credits";
}

TEST(ConnectedPacket, AtomicOperationsHaveTheLayoutOfIba) {
  auto swap = packet(ConnectedOpcode::compare_swap);
  swap.atomic = {0x1122334455667788, 0xaabbccdd, 0x0102030405060708, 0x1112131415161718};
  const auto request = assemble(swap);
  EXPECT_EQ(request, from_hex("00 02 0005 000d 0004  13 00 ffff 00 000801 00 000009"
                              "1122334455667788 aabbccdd 0102030405060708 1112131415161718"));
  EXPECT_EQ(ConnectedPacket::parse(request)->atomic, swap.atomic);
  auto response = packet(ConnectedOpcode::atomic_acknowledge);
  response.aeth.msn = 3;
  response.original = 0x2122232425262728;
  const auto bytes = assemble(response);
  EXPECT_EQ(bytes, from_hex("00 02 0005 0009 0004  12 00 ffff 00 000801 00 000009"
                            "1f 000003 2122232425262728"));
  EXPECT_EQ(ConnectedPacket::parse(bytes)->original, response.original);
}

TEST(ConnectedPacket, GrhPayloadLengthIncludesTheIcrc) {
  auto send = packet(ConnectedOpcode::send_only);
  send.grh.emplace().hop_limit = 7;
  const auto bytes = assemble(send, from_hex("aabbccdd"));
  const auto parsed = ConnectedPacket::parse(bytes);
  ASSERT_TRUE(parsed && parsed->grh);
  EXPECT_EQ(parsed->grh->payload_length, 12 + 4 + 4);
  EXPECT_EQ(parsed->grh->hop_limit, 7);
}

/// Each opcode with its headers: R(ETH), T: AtomicETH, A(ETH), O: AtomicAckETH, I(mmDt), P(ayload).
TEST(ConnectedPacket, EachOpcodeHasItsHeaders) {
  const std::array<std::string, 21> kHeaders = {"P", "P",  "P",  "IP", "P",   "IP", "RP",
                                                "P", "P",  "IP", "RP", "RIP", "R",  "AP",
                                                "P", "AP", "AP", "A",  "AO",  "T",  "T"};
  const std::map<char, std::size_t> kSizes = {{'R', 16}, {'T', 28}, {'A', 4},
                                              {'O', 8},  {'I', 4},  {'P', 0}};
  for (std::size_t code = 0; code < kHeaders.size(); ++code) {
    SCOPED_TRACE(code);
    std::size_t size = Lrh::kSize + Bth::kSize;
    for (const char header : kHeaders[code]) size += kSizes.at(header);
    const auto opcode = static_cast<ConnectedOpcode>(code);
    EXPECT_EQ(assemble(packet(opcode)).size(), size);
    auto routed = packet(opcode);
    EXPECT_EQ(routed.header_size(), size);
    routed.grh.emplace();
    EXPECT_EQ(routed.header_size(), size + Grh::kSize);
    const auto with_payload = assemble(packet(opcode), from_hex("01020304"));
    EXPECT_EQ(ConnectedPacket::parse(with_payload).has_value(), kHeaders[code].back() == 'P');
  }
}

TEST(ConnectedPacket, RefusesOtherOpcodesAndLengths) {
  const auto good = assemble(packet(ConnectedOpcode::send_only), from_hex("01020304"));
  ASSERT_TRUE(ConnectedPacket::parse(good));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ConnectedPacket::parse(ConstBytes(good).first(size)));
  }
  for (const int code : {0x15, 0x18, 0x1c, 0x1e, 0x2c, 0x36, 0x64, 0xff}) {
    auto other = good;
    other[8] = static_cast<std::uint8_t>(code);
    EXPECT_FALSE(ConnectedPacket::parse(other)) << code;
  }
  auto other = good;
  other[9] = 0x01;
  EXPECT_FALSE(ConnectedPacket::parse(other)) << "transport header version 1";
  other = assemble(packet(ConnectedOpcode::send_only));
  other[9] = 0x10;
  EXPECT_FALSE(ConnectedPacket::parse(other)) << "more padding than bytes";
}

TEST(ConnectedPacket, RnrTimersAreThoseOfIba) {
  EXPECT_EQ(rnr_delay(0), microseconds(655'360));
  EXPECT_EQ(rnr_delay(1), microseconds(10));
  EXPECT_EQ(rnr_delay(12), microseconds(640));
  EXPECT_EQ(rnr_delay(31), microseconds(491'520));
}

}  // namespace
}  // namespace ipoib::wire
