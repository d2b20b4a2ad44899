#include "wire/packet.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

const auto kLrh = from_hex("72 53 c001 0123 0004");
const auto kGrh = from_hex(
    "612abcde 0040 1b ff fe800000000000000000000000100001 ff12401bffff000000000000ffffffff");
const auto kBth = from_hex("64 b0 ffff 00 ffffff 00 123456");
const auto kDeth = from_hex("00000b1b 00 000401");

Grh grh() {
  Grh header;
  header.traffic_class = 0x12;
  header.flow_label = 0xabcde;
  header.payload_length = 64;
  header.hop_limit = 255;
  header.sgid = *Gid::parse("fe80::10:1");
  header.dgid = *Gid::parse("ff12:401b:ffff::ffff:ffff");
  return header;
}

TEST(Lrh, HasTheLayoutOfIba) {
  Lrh lrh;
  lrh.virtual_lane = 7;
  lrh.sl = ServiceLevel(5);
  lrh.next_header = Lrh::kLnhGlobal;
  lrh.dlid = Lid(0xc001);
  lrh.length = 0x123;
  lrh.slid = Lid(4);
  auto golden = from_hex("70 53 c001 0123 0004");
  expect_golden(lrh, golden);
  expect_stable<Lrh>(golden);
  expect_truncations_refused<Lrh>(golden);
  EXPECT_FALSE(Lrh::parse(kLrh)) << "link version 2";
}

TEST(Grh, HasTheLayoutOfIba) {
  expect_golden(grh(), kGrh);
  expect_stable<Grh>(kGrh);
  expect_truncations_refused<Grh>(kGrh);
  auto other = kGrh;
  other[0] = 0x41;
  EXPECT_FALSE(Grh::parse(other)) << "IP version 4";
}

TEST(Bth, HasTheLayoutOfIba) {
  Bth bth;
  bth.solicited = true;
  bth.pad = 3;
  bth.pkey = PKey(0xffff);
  bth.destination = kMulticastQpn;
  bth.psn = Psn(0x123456);
  expect_golden(bth, kBth);
  expect_stable<Bth>(kBth);
  expect_truncations_refused<Bth>(kBth);
}

TEST(Deth, HasTheLayoutOfIba) {
  Deth deth;
  deth.qkey = QKey(0x0b1b);
  deth.source = Qpn(0x401);
  expect_golden(deth, kDeth);
  expect_stable<Deth>(kDeth);
  expect_truncations_refused<Deth>(kDeth);
}

/// A packet with `payload`, from LRH to padding.
std::vector<std::uint8_t> assemble(UdPacket packet, const std::vector<std::uint8_t>& payload) {
  std::vector<std::uint8_t> bytes(UdPacket::kMaxHeaderSize);
  bytes.resize(packet.emit_headers(payload.size(), bytes));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  bytes.resize(bytes.size() + packet.bth.pad);
  return bytes;
}

UdPacket unicast() {
  UdPacket packet;
  packet.lrh.dlid = Lid(5);
  packet.lrh.slid = Lid(4);
  packet.bth.pkey = kDefaultPKey;
  packet.bth.destination = Qpn(0x801);
  packet.bth.psn = Psn(9);
  packet.deth.qkey = QKey(0x0b1b);
  packet.deth.source = Qpn(0x401);
  return packet;
}

TEST(UdPacket, LocalPacketHasTheLayoutOfIba) {
  const auto bytes = assemble(unicast(), from_hex("aa bb cc dd ee"));
  EXPECT_EQ(bytes, from_hex("00 02 0005 000a 0004"            // 10 words with the ICRC
                            "64 30 ffff 00 000801 00 000009"  // 3 bytes of padding
                            "00000b1b 00 000401 aabbccddee 000000"));
  const auto parsed = UdPacket::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->grh);
  EXPECT_FALSE(parsed->immediate);
  EXPECT_EQ(parsed->deth, unicast().deth);
  EXPECT_EQ(std::vector(parsed->payload.begin(), parsed->payload.end()), from_hex("aabbccddee"));
}

TEST(UdPacket, GrhPayloadLengthIncludesTheIcrc) {
  auto packet = unicast();
  packet.grh = grh();
  packet.immediate = 0xdeadbeef;
  const auto bytes = assemble(packet, from_hex("aabbccdd"));
  const auto parsed = UdPacket::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->lrh.next_header, Lrh::kLnhGlobal);
  EXPECT_EQ(parsed->lrh.length * 4U, bytes.size() + 4);
  ASSERT_TRUE(parsed->grh);
  EXPECT_EQ(parsed->grh->payload_length, 12 + 8 + 4 + 4 + 4);
  EXPECT_EQ(parsed->grh->dgid, grh().dgid);
  EXPECT_EQ(parsed->immediate, 0xdeadbeef);
  EXPECT_EQ(parsed->bth.opcode, Bth::kUdSendOnlyImmediate);
  EXPECT_EQ(std::vector(parsed->payload.begin(), parsed->payload.end()), from_hex("aabbccdd"));
}

TEST(UdPacket, PadsEverySizeToWords) {
  for (std::size_t size = 0; size <= 64; ++size) {
    const std::vector<std::uint8_t> payload(size, 0x5a);
    const auto bytes = assemble(unicast(), payload);
    EXPECT_EQ(bytes.size() % 4, 0U);
    const auto parsed = UdPacket::parse(bytes);
    ASSERT_TRUE(parsed) << size;
    EXPECT_EQ(parsed->payload.size(), size);
  }
}

TEST(UdPacket, RefusesEveryTruncationAndEveryExcess) {
  auto packet = unicast();
  packet.grh = grh();
  auto bytes = assemble(packet, from_hex("aabbccdd"));
  expect_truncations_refused<UdPacket>(bytes);
  bytes.resize(bytes.size() + 4);
  EXPECT_FALSE(UdPacket::parse(bytes));
}

TEST(UdPacket, RefusesOtherTransports) {
  auto bytes = assemble(unicast(), from_hex("aabbccdd"));
  bytes[8] = 0x04;  // RC send only
  EXPECT_FALSE(UdPacket::parse(bytes));
  bytes = assemble(unicast(), from_hex("aabbccdd"));
  bytes[1] = 0x01;  // a raw IPv6 packet
  EXPECT_FALSE(UdPacket::parse(bytes));
}

TEST(UdPacket, RefusesMorePaddingThanPayload) {
  auto bytes = assemble(unicast(), {});
  bytes[9] = 0x10;
  EXPECT_FALSE(UdPacket::parse(bytes));
}

TEST(UdPacket, RefusesAGrhWithOtherLengths) {
  auto packet = unicast();
  packet.grh = grh();
  const auto bytes = assemble(packet, from_hex("aabbccdd"));
  auto other = bytes;
  other[13] ^= 4;  // PayLen
  EXPECT_FALSE(UdPacket::parse(other));
  other = bytes;
  other[14] = 0x11;  // NxtHdr
  EXPECT_FALSE(UdPacket::parse(other));
}

}  // namespace
}  // namespace ipoib::wire
