// The kernel's settings for ARP, of all interfaces and of one.
#include "linux/arp_settings.hpp"

#include <array>
#include <fstream>
#include <string>

#include "tests/unit/linux/namespace_fixture.hpp"

namespace ipoib::linux {
namespace {

class ArpSettingsTest : public test::NamespaceTest {
 protected:
  static void write(const std::string& interface, const char* setting, int value) {
    std::ofstream file("/proc/sys/net/ipv4/conf/" + interface + "/" + setting);
    ASSERT_TRUE(file << value << std::flush) << setting;
  }
  static ArpPolicy policy() { return ArpSettings().read("lo").value(); }
};

TEST_F(ArpSettingsTest, TheLargerOneOfBothCounts) {
  EXPECT_EQ(policy(), ArpPolicy());
  write("all", "arp_ignore", 1);
  write("lo", "arp_ignore", 2);
  write("all", "arp_announce", 2);
  write("lo", "arp_announce", 1);
  EXPECT_EQ(policy(), (ArpPolicy{.ignore = 2, .announce = 2}));
  for (const auto* const interface : {"all", "lo"}) {
    write(interface, "arp_filter", 1);
    EXPECT_TRUE(policy().filter) << interface;
    write(interface, "arp_filter", 0);
  }
  EXPECT_FALSE(policy().filter);
}

/// A host that does not forward is no proxy.
TEST_F(ArpSettingsTest, AProxyForwards) {
  struct Row {
    const char* interface;
    const char* setting;
    bool within;
  };
  for (const auto& [interface, setting, within] :
       std::array{Row{"all", "proxy_arp", false}, Row{"lo", "proxy_arp", false},
                  Row{"lo", "proxy_arp_pvlan", true}}) {
    SCOPED_TRACE(std::string(interface) + " " + setting);
    write(interface, setting, 1);
    write("lo", "forwarding", 0);
    EXPECT_EQ(policy(), ArpPolicy());
    write("lo", "forwarding", 1);
    EXPECT_EQ(policy(), (ArpPolicy{.proxy = true, .forwards = true}));
    EXPECT_EQ(ArpSettings().proxies("lo"), !within);
    EXPECT_EQ(ArpSettings().proxies_within("lo"), within);
    write(interface, setting, 0);
  }
}

TEST_F(ArpSettingsTest, AnInterfaceThatHasGoneHasNone) {
  EXPECT_FALSE(ArpSettings().read("gone0"));
}

}  // namespace
}  // namespace ipoib::linux
