#include "linux/ethernet_links.hpp"

#include <gtest/gtest.h>
#include <linux/if_link.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include <memory>
#include <string_view>

namespace ipoib::linux {
namespace {

// BOND_STATE_* of <linux/if_bonding.h>.
constexpr std::uint8_t kActive = 0;
constexpr std::uint8_t kBackup = 1;

/// IFLA_LINKINFO of a port of that kind of master.
class PortInfo {
 public:
  PortInfo(std::string_view kind, int attribute, std::uint8_t state) {
    nlattr* const info = nla_nest_start(message_.get(), IFLA_LINKINFO);
    EXPECT_EQ(
        nla_put(message_.get(), IFLA_INFO_SLAVE_KIND, static_cast<int>(kind.size()), kind.data()),
        0);
    nlattr* const data = nla_nest_start(message_.get(), IFLA_INFO_SLAVE_DATA);
    EXPECT_EQ(nla_put_u8(message_.get(), attribute, state), 0);
    nla_nest_end(message_.get(), data);
    nla_nest_end(message_.get(), info);
  }
  [[nodiscard]] bool is_backup() const {
    return is_backup_port(nlmsg_attrdata(nlmsg_hdr(message_.get()), 0));
  }

 private:
  std::unique_ptr<nl_msg, decltype(&nlmsg_free)> message_{nlmsg_alloc_simple(0, 0), &nlmsg_free};
};

TEST(EthernetLinks, ABackupPortOfABondIsKnown) {
  EXPECT_TRUE(PortInfo("bond", IFLA_BOND_SLAVE_STATE, kBackup).is_backup());
  EXPECT_FALSE(PortInfo("bond", IFLA_BOND_SLAVE_STATE, kActive).is_backup());
  EXPECT_FALSE(PortInfo("bond", IFLA_BOND_SLAVE_MII_STATUS, kBackup).is_backup());
  EXPECT_FALSE(PortInfo("bridge", IFLA_BRPORT_STATE, kBackup).is_backup());
  EXPECT_TRUE(PortInfo(std::string_view("bond", 5), IFLA_BOND_SLAVE_STATE, kBackup).is_backup());
  EXPECT_FALSE(is_backup_port(nullptr));
}

bool is_guests(const char* kind) {
  const std::unique_ptr<nl_msg, decltype(&nlmsg_free)> message(nlmsg_alloc_simple(0, 0),
                                                               &nlmsg_free);
  nlattr* const info = nla_nest_start(message.get(), IFLA_LINKINFO);
  EXPECT_EQ(nla_put_string(message.get(), IFLA_INFO_KIND, kind), 0);
  nla_nest_end(message.get(), info);
  return is_tap_of_a_guest(nlmsg_attrdata(nlmsg_hdr(message.get()), 0));
}

TEST(EthernetLinks, TheMacOfAMacvtapIsThatOfAGuest) {
  EXPECT_TRUE(is_guests("macvtap"));
  EXPECT_TRUE(is_guests("ipvtap"));
  EXPECT_FALSE(is_guests("macvlan"));
  EXPECT_FALSE(is_tap_of_a_guest(nullptr));
}

}  // namespace
}  // namespace ipoib::linux
