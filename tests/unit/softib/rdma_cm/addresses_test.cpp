#include <gtest/gtest.h>

#include "softib/rdma_cm/address.hpp"
#include "softib/rdma_cm/id_status.hpp"

namespace softib::rdma_cm {
namespace {

IpEndpoint ip(const char* text, std::uint16_t port = 0) {
  return {ipoib::parse_ip_address(text).value(), port};
}

TEST(Addresses, WildcardsAndLoopback) {
  EXPECT_TRUE(is_any(Address()));
  EXPECT_TRUE(is_any(ip("0.0.0.0", 5)) && is_any(ip("::")) && is_any(IbEndpoint()));
  EXPECT_FALSE(is_any(ip("127.0.0.1")) || is_any(ip("::1")));
  EXPECT_TRUE(is_loopback(ip("127.0.0.1")) && is_loopback(ip("::1")));
  EXPECT_TRUE(is_wildcard(ip("127.0.0.1")) && is_wildcard(ip("::")));
  EXPECT_FALSE(is_wildcard(ip("127.77.0.1")));
  EXPECT_FALSE(is_loopback(ip("127.77.0.1")) || is_loopback(ip("::")) || is_loopback(IbEndpoint()));
  EXPECT_EQ(any_like(ip("10.0.0.1", 7)), Address(ip("0.0.0.0")));
  EXPECT_EQ(any_like(ip("fd77::1", 7)), Address(ip("::")));
}

TEST(Addresses, HostsAreComparedWithoutPorts) {
  EXPECT_TRUE(is_same_host(ip("10.0.0.1", 1), ip("10.0.0.1", 2)));
  EXPECT_FALSE(is_same_host(ip("10.0.0.1"), ip("10.0.0.2")));
  EXPECT_FALSE(is_same_kind(ip("10.0.0.1"), ip("::1")));
  EXPECT_FALSE(is_same_host(ip("0.0.0.0"), IbEndpoint()));
}

TEST(Addresses, PortSpacesHaveNames) {
  EXPECT_EQ(name(PortSpace::ipoib), "ipoib");
  EXPECT_EQ(name(PortSpace::tcp), "tcp");
  EXPECT_EQ(name(PortSpace::udp), "udp");
  EXPECT_EQ(name(PortSpace::ib), "ib");
}

TEST(Addresses, ServiceIdsHavePortSpaceAndPort) {
  EXPECT_EQ(service_id_of(PortSpace::tcp, ip("10.0.0.1", 7174)).value(), 0x0106'1c06U);
  EXPECT_EQ(service_id_of(PortSpace::udp, ip("::", 1)).value(), 0x0111'0001U);
  IbEndpoint ib;
  ib.service_id = 0x1000'0000'0000'1234;
  EXPECT_EQ(service_id_of(PortSpace::ib, ib).value(), ib.service_id);
  EXPECT_EQ(port_of(ib), 0) << "the mask leaves it open";
  EXPECT_EQ(port_of(with_port(ib, 77)), 77);
  EXPECT_EQ(port_of(with_port(ip("10.0.0.1"), 77)), 77);
}

}  // namespace
}  // namespace softib::rdma_cm
