#include "golden.hpp"
#include "wire/group_membership.hpp"

namespace ipoib::wire {
namespace {

/// A hop-by-hop header with the router alert, and a message of this type.
std::vector<std::uint8_t> icmpv6(std::uint8_t type, std::uint8_t next_header = 58) {
  auto packet = from_hex(
      "6000000000200001 fe800000000000000002c90300000001 ff020000000000000000000000000016"
      "3a00 0502 0000 0100 0000 0000 00000000");
  packet[40] = next_header;
  packet[48] = type;
  return packet;
}

TEST(HostGroups, ChangeByReportsOfMld) {
  for (const std::uint8_t type : {std::uint8_t{131}, std::uint8_t{132}, std::uint8_t{143}}) {
    EXPECT_TRUE(changes_host_groups(icmpv6(type))) << unsigned{type};
  }
  EXPECT_FALSE(changes_host_groups(icmpv6(130))) << "a query";
  EXPECT_FALSE(changes_host_groups(icmpv6(131, 17))) << "UDP";
  auto without_router_alert = icmpv6(131);
  without_router_alert[6] = 58;
  EXPECT_FALSE(changes_host_groups(without_router_alert));
  EXPECT_FALSE(changes_host_groups(ConstBytes(icmpv6(131)).first(48))) << "truncated";
}

TEST(HostGroups, ChangeByIgmp) {
  auto packet = from_hex("46c00020 00004000 01020000 0a2c0001 e0000016 94040000");
  EXPECT_TRUE(changes_host_groups(packet));
  packet[9] = 17;
  EXPECT_FALSE(changes_host_groups(packet));
  EXPECT_FALSE(changes_host_groups(ConstBytes(packet).first(9)));
}

}  // namespace
}  // namespace ipoib::wire
