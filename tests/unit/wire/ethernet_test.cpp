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

TEST(VlanTag, LiesBetweenSourceAndType) {
  const auto frame = from_hex("ffffffffffff 02c903000001 8100 b012 0806 00");
  const auto tag = VlanTag::parse(frame);
  EXPECT_EQ(tag, (VlanTag{.priority = 5, .drop_eligible = true, .vlan = VlanId(18)}));
  std::vector<std::uint8_t> written(VlanTag::kSize);
  tag->emit(written.data());
  EXPECT_EQ(written, from_hex("8100 b012"));
  VlanTag{.vlan = kLastVlan}.emit(written.data());
  EXPECT_EQ(written, from_hex("8100 0ffe"));
}

TEST(VlanTag, IsMissing) {
  EXPECT_FALSE(VlanTag::parse(from_hex("ffffffffffff 02c903000001 0806 0012 0806 00")));
  EXPECT_FALSE(VlanTag::parse(from_hex("ffffffffffff 02c903000001 88a8 0012 0806 00")));
  EXPECT_TRUE(VlanTag::parse(from_hex("ffffffffffff 02c903000001 8100 0012 0806")));
  EXPECT_FALSE(VlanTag::parse(from_hex("ffffffffffff 02c903000001 8100 0012 08"))) << "too short";
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
