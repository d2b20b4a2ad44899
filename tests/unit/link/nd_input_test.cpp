// What Neighbour Discovery messages say about their sender.
#include "link/nd_input.hpp"

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

class NdInputTest : public LinkFixture {
 protected:
  void SetUp() override {
    bring_up();
    view.addresses = {{*Ipv6Address::parse("fe80::1"), 64}};
    (void)host.update(view);
  }
  static wire::NdMessage solicitation() {
    wire::NdMessage message;
    message.type = wire::NdType::neighbour_solicitation;
    message.source = *Ipv6Address::parse("fe80::2");
    message.target = *Ipv6Address::parse("fe80::1");
    return message;
  }
  HostAddresses host;
};

TEST_F(NdInputTest, UnsolicitedDiscoveryWithoutALinkLayerAddressSaysNothing) {
  auto message = solicitation();
  EXPECT_FALSE(neighbour_update(message, host, link->hardware_address()));
  message.source_link_layer = kPeerHw;
  EXPECT_TRUE(neighbour_update(message, host, link->hardware_address()));
  message = {};
  message.type = wire::NdType::neighbour_advertisement;
  message.target = *Ipv6Address::parse("fe80::2");
  EXPECT_FALSE(neighbour_update(message, host, link->hardware_address()));
  message.is_solicited = true;
  EXPECT_TRUE(neighbour_update(message, host, link->hardware_address()))
      << "it confirms the address that is known";
}

TEST_F(NdInputTest, OnlyAnAdvertisementCanLeaveAKnownAddressAsItIs) {
  auto message = solicitation();
  message.source_link_layer = message.target_link_layer = kPeerHw;
  const auto overrides = [&](wire::NdType type) {
    message.type = type;
    if (type == wire::NdType::neighbour_advertisement) message.target = message.source;
    return neighbour_update(message, host, link->hardware_address())->overrides;
  };
  EXPECT_TRUE(overrides(wire::NdType::neighbour_solicitation));
  EXPECT_TRUE(overrides(wire::NdType::router_solicitation));
  EXPECT_TRUE(overrides(wire::NdType::router_advertisement));
  EXPECT_FALSE(overrides(wire::NdType::neighbour_advertisement)) << "it lacks the flag";
}

TEST_F(NdInputTest, AnAddressThatIsNoEndpointsSaysNothing) {
  auto message = solicitation();
  auto hardware = kPeerHw;
  hardware.qpn = kMulticastQpn;
  message.source_link_layer = hardware;
  EXPECT_FALSE(neighbour_update(message, host, link->hardware_address()));
  message.source_link_layer = link->hardware_address();
  EXPECT_FALSE(neighbour_update(message, host, link->hardware_address()));
}

}  // namespace
}  // namespace ipoib::link
