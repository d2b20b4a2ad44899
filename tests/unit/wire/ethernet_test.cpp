#include "wire/ethernet.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

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
