#include "softib/topology/check.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "softib/topology/guids.hpp"
#include "topologies.hpp"

namespace softib::topology {
namespace {

using testing::HasSubstr;

TEST(TopologyCheck, AcceptsValidTopologies) {
  EXPECT_TRUE(check({}).has_value());
  EXPECT_TRUE(check(small_topology()).has_value());
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto checked = check(RandomTopology(seed).make());
    EXPECT_TRUE(checked.has_value()) << seed << ": " << checked.error().message;
  }
}

struct Fault {
  const char* reason;
  std::function<void(Topology&)> make;
};

TEST(TopologyCheck, NamesWhatIsInvalid) {
  const std::vector<Fault> faults{
      {"not a valid switch name", [](Topology& t) { t.switches[0].name = "a b"; }},
      {"not a valid HCA name", [](Topology& t) { t.hcas[0].name = ""; }},
      {"two nodes are named \"left\"", [](Topology& t) { t.hcas[0].name = "left"; }},
      {"description of switch \"left\"", [](Topology& t) { t.switches[0].description = "a\"b"; }},
      {"description of HCA \"host\"",
       [](Topology& t) { t.hcas[0].description = std::string(kMaxDescription + 1, 'x'); }},
      {"has 0 ports", [](Topology& t) { t.switches[1].ports = 0; }},
      {"has 255 ports", [](Topology& t) { t.switches[1].ports = 255; }},
      {"has 3 ports; expected 1 to 2", [](Topology& t) { t.hcas[0].ports = 3; }},
      {"GUID of HCA \"host\"", [](Topology& t) { t.hcas[0].guid = Guid(0x77); }},
      {"port GUID of \"host\"", [](Topology& t) { t.hcas[0].port_guids[1] = Guid(0x77); }},
      {"port GUID of \"host\"", [](Topology& t) { t.hcas[0].guid = Guid(0x76); }},
      {"does not exist", [](Topology& t) { t.cables[0].a.index = 1; }},
      {"port 5 of \"left\"", [](Topology& t) { t.cables[3].a.port = 5; }},
      {"port 0 of \"left\"", [](Topology& t) { t.cables[3].a.port = 0; }},
      {"port 1 of \"left\" has two cables", [](Topology& t) { t.cables[3].a.port = 1; }},
      {"width or speed", [](Topology& t) { t.cables[0].width = 3; }},
      {"width or speed", [](Topology& t) { t.cables[0].width = 32; }},
      {"width or speed", [](Topology& t) { t.cables[0].speed = 0; }},
      {"width or speed", [](Topology& t) { t.cables[0].speed = 8; }},
      {"width or speed", [](Topology& t) { t.cables[0].extended_speed = 16; }},
      {"more than 1024 switches", [](Topology& t) { t.switches.resize(kMaxSwitches + 1); }},
      {"more than 4095 HCAs", [](Topology& t) { t.hcas.resize(kMaxHcas + 1); }},
  };
  for (const auto& fault : faults) {
    Topology topology = small_topology();
    fault.make(topology);
    const auto checked = check(topology);
    ASSERT_FALSE(checked.has_value()) << fault.reason;
    EXPECT_THAT(checked.error().message, HasSubstr(fault.reason));
  }
}

TEST(TopologyCheck, GuidsAreDerivedFromNames) {
  const Topology topology = with_guids(small_topology(), 0);
  EXPECT_TRUE(check(topology).has_value());
  // As `softib subnet` derives them.
  EXPECT_EQ(topology.hcas[0].guid.value() >> 40U, 0x02'501bU);
  EXPECT_EQ(topology.hcas[0].guid.value() & 0xfU, 0U);
  EXPECT_EQ(topology.hcas[0].port_guids[1].value(), topology.hcas[0].guid.value() + 2);
  EXPECT_EQ(topology.switches[1].guid, Guid(0x77)) << "given";
  EXPECT_EQ(with_guids(small_topology(), 0), topology);
  EXPECT_NE(with_guids(small_topology(), 1).hcas[0].guid, topology.hcas[0].guid);
}

TEST(TopologyCheck, DerivedGuidsAvoidGivenOnes) {
  Topology topology = small_topology();
  const Guid derived = with_guids(topology, 0).hcas[0].guid;
  topology.switches[1].guid = Guid(derived.value() + 2);
  const Topology all = with_guids(topology, 0);
  EXPECT_NE(all.hcas[0].guid, derived);
  EXPECT_TRUE(check(all).has_value());
}

}  // namespace
}  // namespace softib::topology
