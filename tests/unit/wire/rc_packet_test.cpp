#include "wire/rc_packet.hpp"

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

RcPacket packet(RcOpcode opcode) {
  RcPacket out;
  out.lrh.dlid = Lid(5);
  out.lrh.slid = Lid(4);
  out.bth.pkey = kDefaultPKey;
  out.bth.destination = Qpn(0x801);
  out.bth.psn = Psn(9);
  out.opcode = opcode;
  return out;
}

std::vector<std::uint8_t> assemble(RcPacket packet, const std::vector<std::uint8_t>& payload = {}) {
  std::vector<std::uint8_t> bytes(RcPacket::kMaxHeaderSize);
  bytes.resize(packet.emit_headers(payload.size(), bytes));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  bytes.resize(bytes.size() + packet.bth.pad);
  return bytes;
}

TEST(RcPacket, WriteWithImmediateHasTheLayoutOfIba) {
  auto write = packet(RcOpcode::write_only_immediate);
  write.bth.solicited = true;
  write.bth.ack_request = true;
  write.reth = {0x1122334455667788, 0xaabbccdd, 5};
  write.immediate = 0xdeadbeef;
  const auto bytes = assemble(write, from_hex("01 02 03 04 05"));
  EXPECT_EQ(bytes, from_hex("00 02 0005 000d 0004"            // 13 words with the ICRC
                            "0b b0 ffff 00 000801 80 000009"  // 3 bytes of padding
                            "1122334455667788 aabbccdd 00000005 deadbeef 0102030405 000000"));
  const auto parsed = RcPacket::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->opcode, RcOpcode::write_only_immediate);
  EXPECT_EQ(parsed->reth, write.reth);
  EXPECT_EQ(parsed->immediate, write.immediate);
  EXPECT_TRUE(parsed->bth.solicited && parsed->bth.ack_request);
  EXPECT_EQ(std::vector(parsed->payload.begin(), parsed->payload.end()), from_hex("0102030405"));
}

TEST(RcPacket, AcknowledgeHasTheLayoutOfIba) {
  auto nak = packet(RcOpcode::acknowledge);
  nak.aeth = {Aeth::Kind::nak, Aeth::kRemoteAccessError, 0x123456};
  const auto bytes = assemble(nak);
  EXPECT_EQ(bytes, from_hex("00 02 0005 0007 0004  11 00 ffff 00 000801 00 000009  62 123456"));
  const auto parsed = RcPacket::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->aeth, nak.aeth);
  nak.aeth = {Aeth::Kind::rnr_nak, 12, 1};
  EXPECT_EQ(assemble(nak).at(20), 0x2c);
  nak.aeth = {};
  EXPECT_EQ(assemble(nak).at(20), 0x1f) << "an acknowledgement without credits";
}

TEST(RcPacket, AtomicOperationsHaveTheLayoutOfIba) {
  auto swap = packet(RcOpcode::compare_swap);
  swap.atomic = {0x1122334455667788, 0xaabbccdd, 0x0102030405060708, 0x1112131415161718};
  const auto request = assemble(swap);
  EXPECT_EQ(request, from_hex("00 02 0005 000d 0004  13 00 ffff 00 000801 00 000009"
                              "1122334455667788 aabbccdd 0102030405060708 1112131415161718"));
  EXPECT_EQ(RcPacket::parse(request)->atomic, swap.atomic);
  auto response = packet(RcOpcode::atomic_acknowledge);
  response.aeth.msn = 3;
  response.original = 0x2122232425262728;
  const auto bytes = assemble(response);
  EXPECT_EQ(bytes, from_hex("00 02 0005 0009 0004  12 00 ffff 00 000801 00 000009"
                            "1f 000003 2122232425262728"));
  EXPECT_EQ(RcPacket::parse(bytes)->original, response.original);
}

TEST(RcPacket, GrhPayloadLengthIncludesTheIcrc) {
  auto send = packet(RcOpcode::send_only);
  send.grh.emplace().hop_limit = 7;
  const auto bytes = assemble(send, from_hex("aabbccdd"));
  const auto parsed = RcPacket::parse(bytes);
  ASSERT_TRUE(parsed && parsed->grh);
  EXPECT_EQ(parsed->grh->payload_length, 12 + 4 + 4);
  EXPECT_EQ(parsed->grh->hop_limit, 7);
}

/// Each opcode with its headers: R(ETH), T: AtomicETH, A(ETH), O: AtomicAckETH, I(mmDt), P(ayload).
TEST(RcPacket, EachOpcodeHasItsHeaders) {
  const std::array<std::string, 21> kHeaders = {"P", "P",  "P",  "IP", "P",   "IP", "RP",
                                                "P", "P",  "IP", "RP", "RIP", "R",  "AP",
                                                "P", "AP", "AP", "A",  "AO",  "T",  "T"};
  const std::map<char, std::size_t> kSizes = {{'R', 16}, {'T', 28}, {'A', 4},
                                              {'O', 8},  {'I', 4},  {'P', 0}};
  for (std::size_t code = 0; code < kHeaders.size(); ++code) {
    SCOPED_TRACE(code);
    std::size_t size = Lrh::kSize + Bth::kSize;
    for (const char header : kHeaders[code]) size += kSizes.at(header);
    const auto opcode = static_cast<RcOpcode>(code);
    EXPECT_EQ(assemble(packet(opcode)).size(), size);
    const auto with_payload = assemble(packet(opcode), from_hex("01020304"));
    EXPECT_EQ(RcPacket::parse(with_payload).has_value(), kHeaders[code].back() == 'P');
  }
}

TEST(RcPacket, RefusesOtherOpcodesAndLengths) {
  const auto good = assemble(packet(RcOpcode::send_only), from_hex("01020304"));
  ASSERT_TRUE(RcPacket::parse(good));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(RcPacket::parse(ConstBytes(good).first(size)));
  }
  for (const int code : {0x15, 0x16, 0x24, 0x64, 0xff}) {
    auto other = good;
    other[8] = static_cast<std::uint8_t>(code);
    EXPECT_FALSE(RcPacket::parse(other)) << code;
  }
  auto other = good;
  other[9] = 0x01;
  EXPECT_FALSE(RcPacket::parse(other)) << "transport header version 1";
  other = assemble(packet(RcOpcode::send_only));
  other[9] = 0x10;
  EXPECT_FALSE(RcPacket::parse(other)) << "more padding than bytes";
}

TEST(RcPacket, RnrTimersAreThoseOfIba) {
  EXPECT_EQ(rnr_delay(0), microseconds(655'360));
  EXPECT_EQ(rnr_delay(1), microseconds(10));
  EXPECT_EQ(rnr_delay(12), microseconds(640));
  EXPECT_EQ(rnr_delay(31), microseconds(491'520));
}

}  // namespace
}  // namespace ipoib::wire
