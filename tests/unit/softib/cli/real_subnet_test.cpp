#include "softib/cli/real_subnet.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <cerrno>

namespace softib::cli {
namespace {

constexpr std::string_view kNet = R"(#
# Topology file: generated on Sat Nov 28 16:00:00 2026
#
vendid=0x2c9
devid=0xc738
switchguid=0x2c90000000010(2c90000000010)
Switch	36 "S-0002c90000000010"		# "leaf 1" enhanced port 0 lid 4 lmc 0
[1]	"H-0002c90000000100"[1](2c90000000101) 		# "host 1" lid 5 4xQDR
[2]	"H-0002c90000000200"[1](2c90000000201) 		# "host 2" lid 6 4xQDR
[36]	"S-0002c90000000020"[1]		# "spine 1" lid 3 4xQDR

vendid=0x2c9
devid=0xc738
switchguid=0x2c90000000020(2c90000000020)
Switch	36 "S-0002c90000000020"		# "spine 1" enhanced port 0 lid 3 lmc 0
[1]	"S-0002c90000000010"[36]		# "leaf 1" lid 4 4xQDR

vendid=0x2c9
devid=0x673c
caguid=0x2c90000000100
Ca	1 "H-0002c90000000100"		# "host 1"
[1](2c90000000101) 	"S-0002c90000000010"[1]		# lid 5 lmc 0 "leaf 1" lid 4 4xQDR

vendid=0x2c9
devid=0x673c
caguid=0x2c90000000200
Ca	1 "H-0002c90000000200"		# "host 2"
[1](2c90000000201) 	"S-0002c90000000010"[2]		# lid 6 lmc 0 "leaf 1" lid 4 4xQDR
)";

constexpr std::string_view kRealCounters =
    R"(# Port extended counters: Lid 5 port 1 (CapMask: 0x5A00)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................100
PortRcvData:.....................50
PortXmitPkts:....................7
# Port counters: Lid 4 port 36 (CapMask: 0x5A00)
PortSelect:......................36
CounterSelect:...................0x0000
SymbolErrorCounter:..............3
PortXmitDiscards:................2
PortXmitData:....................18446744073709551615
PortXmitPkts:....................9
# Port counters: Lid 4 port 36 (CapMask: 0x5A00)
PortXmitDiscards:................5
PortXmitData:....................1000
)";

const boost::json::object* named(const boost::json::object& subnet, std::string_view list,
                                 std::string_view name) {
  for (const auto& each : subnet.at(list).as_array()) {
    if (each.as_object().at("name").as_string() == name) return &each.as_object();
  }
  return nullptr;
}

TEST(RealSubnet, HasLidsCablesAndCounters) {
  const auto real = real_subnet(kNet, "net", kRealCounters);
  ASSERT_TRUE(real) << real.error().message;
  EXPECT_EQ(real->topology.switches.size(), 2U);
  const auto* const leaf = named(real->subnet, "switches", "leaf-1");
  const auto* const host = named(real->subnet, "nodes", "host-1");
  ASSERT_NE(leaf, nullptr);
  ASSERT_NE(host, nullptr);
  EXPECT_EQ(leaf->at("lid"), 4);
  EXPECT_EQ(leaf->at("description"), "leaf 1");
  EXPECT_EQ(host->at("lid"), 5);
  EXPECT_EQ(host->at("switch"), "leaf-1");
  EXPECT_EQ(host->at("switch_port"), 1);
  EXPECT_EQ(host->at("counters").as_object().at("sent_bytes"), 400);
  EXPECT_EQ(host->at("counters").as_object().at("received_bytes"), 200);
  const auto& ports = leaf->at("ports").as_array();
  ASSERT_EQ(ports.size(), 3U);
  EXPECT_EQ(ports[0].as_object().at("hca"), "host-1");
  EXPECT_EQ(ports[2].as_object().at("port"), 36);
  EXPECT_EQ(ports[2].as_object().at("to"), "spine-1");
  EXPECT_EQ(ports[2].as_object().at("to_port"), 1);
  EXPECT_EQ(ports[2].as_object().at("discards"), 5) << "the last output counts";
  EXPECT_EQ(ports[2].as_object().at("sent_bytes"), 4000);
  EXPECT_EQ(ports[2].as_object().at("link"), "4xQDR");
}

TEST(RealSubnet, CountersAreOptional) {
  const auto real = real_subnet(kNet, "net", "");
  ASSERT_TRUE(real);
  EXPECT_EQ(named(real->subnet, "nodes", "host-2")->at("counters").as_object().at("sent_bytes"), 0);
}

TEST(RealSubnet, RefusesWhatIsNoTopology) {
  const auto real = real_subnet("Switch x\n", "net", "");
  ASSERT_FALSE(real);
  EXPECT_EQ(real.error().code, EINVAL);
  EXPECT_NE(real.error().message.find("net:1"), std::string::npos);
}

TEST(RealSubnet, IgnoresOtherLinesOfCounters) {
  for (const auto* text : {"PortXmitData:....5\n", "# Lid port\n:....\n:\nx:.y\n", "\n\n#\n",
                           "# Lid 5 port 1\nPortXmitData:..\nPortXmitData:..99999999999999999999\n",
                           "# Lid 99999999999 port 1\nPortXmitData:..7\n"}) {
    const auto real = real_subnet(kNet, "net", text);
    ASSERT_TRUE(real);
    EXPECT_EQ(named(real->subnet, "nodes", "host-1")->at("counters").as_object().at("sent_bytes"),
              0)
        << text;
  }
}

}  // namespace
}  // namespace softib::cli
