#include "wire/rc_packet.hpp"

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
  out.bth.psn = 9;
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

TEST(RcPacket, GrhPayloadLengthIncludesTheIcrc) {
  auto send = packet(RcOpcode::send_only);
  send.grh.emplace().hop_limit = 7;
  const auto bytes = assemble(send, from_hex("aabbccdd"));
  const auto parsed = RcPacket::parse(bytes);
  ASSERT_TRUE(parsed && parsed->grh);
  EXPECT_EQ(parsed->grh->payload_length, 12 + 4 + 4);
  EXPECT_EQ(parsed->grh->hop_limit, 7);
}

/// Each opcode with its headers, in the order of the packet: R(ETH), A(ETH), I(mmDt), payload or -.
TEST(RcPacket, EachOpcodeHasItsHeaders) {
  const std::array<const char*, 18> kHeaders = {"P",  "P",  "P", "IP", "P",  "IP",
                                                "RP", "P",  "P", "IP", "RP", "RIP",
                                                "R-", "AP", "P", "AP", "AP", "A-"};
  for (std::size_t code = 0; code < kHeaders.size(); ++code) {
    const std::string expected = kHeaders[code];
    std::size_t size = Lrh::kSize + Bth::kSize;
    for (const char header : expected)
      size += header == 'R' ? 16 : header == 'A' || header == 'I' ? 4 : 0;
    const auto bytes = assemble(packet(static_cast<RcOpcode>(code)));
    EXPECT_EQ(bytes.size(), size) << "opcode " << code;
    const auto with_payload = assemble(packet(static_cast<RcOpcode>(code)), from_hex("01020304"));
    EXPECT_EQ(RcPacket::parse(with_payload).has_value(), expected.back() == 'P')
        << "opcode " << code;
  }
}

TEST(RcPacket, RefusesOtherOpcodesAndLengths) {
  const auto good = assemble(packet(RcOpcode::send_only), from_hex("01020304"));
  ASSERT_TRUE(RcPacket::parse(good));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(RcPacket::parse(ConstBytes(good).first(size)));
  }
  for (const int code : {0x12, 0x13, 0x14, 0x24, 0x64, 0xff}) {
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
