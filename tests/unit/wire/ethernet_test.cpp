#include "wire/ethernet.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

const auto kRequest = from_hex(
    "0001 0800 06 04 0001"
    "02c903000001 0a2c0001"
    "000000000000 0a2c0002");

EthernetArp request() {
  return {.operation = ArpOperation::request,
          .sender_hardware = MacAddress(0x02c9'0300'0001),
          .sender_protocol = Ipv4Address(0x0a2c0001),
          .target_hardware = {},
          .target_protocol = Ipv4Address(0x0a2c0002)};
}

TEST(EthernetArp, HasTheLayoutOfRfc826) {
  EXPECT_EQ(kRequest.size(), EthernetArp::kSize);
  expect_golden(request(), kRequest);
  expect_stable<EthernetArp>(kRequest);
}

TEST(EthernetArp, RefusesEveryTruncation) { expect_truncations_refused<EthernetArp>(kRequest); }

TEST(EthernetArp, IgnoresPaddingToTheMinimumFrame) {
  auto padded = kRequest;
  padded.resize(46, 0);
  EXPECT_EQ(EthernetArp::parse(padded), request());
}

TEST(EthernetArp, RefusesOtherHardwareAndProtocols) {
  // Every byte before the addresses is checked: types, lengths and operation.
  for (std::size_t at = 0; at < 8; ++at) {
    auto other = kRequest;
    other[at] ^= 0x40;
    EXPECT_EQ(EthernetArp::parse(other), std::nullopt) << at;
  }
}

TEST(EthernetHeader, HasDestinationSourceAndType) {
  const auto bytes = from_hex("ffffffffffff 02c903000001 0806");
  const auto header = EthernetHeader::parse(bytes.data());
  EXPECT_EQ(header.destination, kBroadcastMac);
  EXPECT_EQ(header.source, MacAddress(0x02c9'0300'0001));
  EXPECT_TRUE(is_type(header, EtherType::arp));
  EXPECT_FALSE(is_type(header, EtherType::ipv4));
  std::vector<std::uint8_t> written(EthernetHeader::kSize);
  header.emit(written.data());
  EXPECT_EQ(written, bytes);
}

TEST(MulticastMac, HasTheLow23BitsOfAnIpv4Group) {
  EXPECT_EQ(multicast_mac(Ipv4Address(0xe00000fb)).to_string(), "01:00:5e:00:00:fb");
  EXPECT_EQ(multicast_mac(Ipv4Address(0xefffffff)).to_string(), "01:00:5e:7f:ff:ff");
}

TEST(MulticastMac, HasTheLow32BitsOfAnIpv6Group) {
  EXPECT_EQ(multicast_mac(*Ipv6Address::parse("ff02::1:ff01:203")).to_string(),
            "33:33:ff:01:02:03");
}

}  // namespace
}  // namespace ipoib::wire
