#include "softib/core/hca_ports.hpp"

#include <gtest/gtest.h>

namespace softib {
namespace {

PortAttributes make_port(std::uint8_t number, std::uint8_t hca_ports, PortState state) {
  PortAttributes port;
  port.number = number;
  port.hca_ports = hca_ports;
  port.node_guid = Guid(0x100);
  port.port_guid = Guid(0x777U + number);
  port.lid = Lid(number);
  port.state = state;
  return port;
}

TEST(HcaPorts, APortWithoutACableIsDown) {
  const HcaPorts ports(make_port(2, 2, PortState::active));
  ASSERT_EQ(ports.count(), 2);
  EXPECT_FALSE(ports.has(0));
  EXPECT_FALSE(ports.has(3));
  EXPECT_TRUE(ports[2].has_cable);
  EXPECT_EQ(ports[2].lid, Lid(2));
  EXPECT_FALSE(ports[1].has_cable);
  EXPECT_EQ(ports[1].number, 1);
  EXPECT_EQ(ports[1].state, PortState::down);
  EXPECT_EQ(ports[1].lid, Lid());
  EXPECT_EQ(ports[1].port_guid, Guid(0x101));
}

TEST(HcaPorts, HasAtLeastTheNumberOfItsPort) {
  EXPECT_EQ(HcaPorts(make_port(2, 1, PortState::active)).count(), 2);
  EXPECT_EQ(HcaPorts(make_port(1, 9, PortState::active)).count(), kMaxHcaPorts);
}

TEST(HcaPorts, PrefersAnActivePortThenOneThatIsUpThenOneWithACable) {
  HcaPorts ports(make_port(2, 2, PortState::down));
  EXPECT_EQ(ports.preferred().number, 2) << "port 1 has no cable";
  ports.set(make_port(1, 2, PortState::down));
  EXPECT_EQ(ports.preferred().number, 1);
  ports.set(make_port(2, 2, PortState::init));
  EXPECT_EQ(ports.preferred().number, 2);
  ports.set(make_port(1, 2, PortState::armed));
  EXPECT_EQ(ports.preferred().number, 1);
  ports.set(make_port(2, 2, PortState::active));
  EXPECT_EQ(ports.preferred().number, 2);
}

}  // namespace
}  // namespace softib
