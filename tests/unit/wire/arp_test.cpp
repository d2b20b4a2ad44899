#include "wire/arp.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

const auto kReply = from_hex(
    "0020 0800 14 04 0002"
    "00000401 fe80000000000000 0002c90300000001  0a2c0001"
    "80abcdef fe80000000000000 0002c90300000102  0a2c0002");

Arp reply() {
  Arp arp;
  arp.operation = ArpOperation::reply;
  arp.sender_hardware = {0, Qpn(0x401), *Gid::parse("fe80::2:c903:0:1")};
  arp.sender_protocol = Ipv4Address(0x0a2c0001);
  arp.target_hardware = {0x80, Qpn(0xabcdef), *Gid::parse("fe80::2:c903:0:102")};
  arp.target_protocol = Ipv4Address(0x0a2c0002);
  return arp;
}

TEST(Arp, HasTheLayoutOfRfc4391) {
  EXPECT_EQ(kReply.size(), Arp::kSize);
  expect_golden(reply(), kReply);
  expect_stable<Arp>(kReply);
}

TEST(Arp, RefusesEveryTruncation) { expect_truncations_refused<Arp>(kReply); }

TEST(Arp, IgnoresTrailingBytes) {
  auto padded = kReply;
  padded.resize(60, 0x55);
  EXPECT_EQ(Arp::parse(padded), reply());
}

TEST(Arp, RefusesOtherHardwareAndProtocols) {
  // Every byte before the addresses is checked: types, lengths and operation.
  for (std::size_t at = 0; at < 8; ++at) {
    auto other = kReply;
    other[at] ^= 0x10;
    EXPECT_FALSE(Arp::parse(other)) << "byte " << at;
  }
}

TEST(Arp, RefusesOperationsOfOtherProtocols) {
  for (const std::uint8_t operation : std::initializer_list<std::uint8_t>{0, 3, 4, 8, 255}) {
    auto other = kReply;
    other[7] = operation;
    EXPECT_FALSE(Arp::parse(other)) << int{operation};
  }
}

}  // namespace
}  // namespace ipoib::wire
