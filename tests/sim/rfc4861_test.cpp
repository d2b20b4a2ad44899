// RFC 4861 with the link-layer options of RFC 4391, 9.3: IPv6 between hosts.
#include "tests/sim/sim_fixture.hpp"
#include "tests/support/softib/subnet_snapshot.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::sim {
namespace {

using wire::NdMessage;
using wire::NdType;

class Rfc4861 : public Sim {
 protected:
  [[nodiscard]] HostOptions ipv6_options(std::uint32_t number) const {
    HostOptions chosen = options(number);
    chosen.ipv6 = true;
    return chosen;
  }
  void two_hosts_of_ipv6() {
    add(ipv6_options(1));
    add(ipv6_options(2));
    bring_up();
    world.run_for(5s);
  }
  [[nodiscard]] bool reaches6(Host& from, Host& to) {
    const std::size_t before = to.received_from(from.ipv6());
    from.send(to.ipv6());
    return world.run_until([&] { return to.received_from(from.ipv6()) > before; }, 3s);
  }
  /// The ICMPv6 bytes of a Neighbour Discovery message; empty for other packets.
  [[nodiscard]] static ConstBytes discovery_in(const wire::UdPacket& ud) {
    if (wire::parse_encapsulation(ud.payload) != wire::EtherType::ipv6) return {};
    const ConstBytes packet = ud.payload.subspan(wire::kEncapsulationSize);
    return wire::is_neighbour_discovery(packet, wire::upper_layer(packet)) ? packet : ConstBytes{};
  }
};

TEST_F(Rfc4861, RFC4861_7_2_HostsResolveEachOther) {
  two_hosts_of_ipv6();
  EXPECT_TRUE(reaches6(a(), b()));
  EXPECT_EQ(a().state_of(b().ipv6()), "reachable");
  EXPECT_TRUE(reaches6(b(), a()));
}

TEST_F(Rfc4861, RFC4391_8_LinkLocalAddressHasThePortGuid) {
  constexpr std::uint64_t kGuid = 0x0002'c903'0000'1234;  // an EUI-64
  softib::subnet::Subnet earlier;
  (void)earlier.add_hca("hca1").value();
  auto before = snapshot_of(earlier);
  before.nodes.back().node.port.port_guid = Guid(kGuid);
  world.subnet().adopt(before, world.now());
  two_hosts_of_ipv6();
  ASSERT_EQ(a().hardware().gid.guid(), Guid(kGuid));
  EXPECT_EQ(a().ipv6(), *Ipv6Address::parse("fe80::202:c903:0:1234")) << "the u bit is toggled";
  const std::uint64_t modified = b().hardware().gid.guid().value();
  ASSERT_NE(modified & 0x0200'0000'0000'0000, 0U) << "u bit is set";
  Ipv6Address::Bytes expected{0xfe, 0x80};
  store_be(expected.data() + 8, modified);
  EXPECT_EQ(b().ipv6(), Ipv6Address(expected));
  EXPECT_TRUE(reaches6(a(), b()));
  EXPECT_TRUE(reaches6(b(), a()));
}

TEST_F(Rfc4861, RFC4861_7_2_2_SolicitationByMulticastAdvertisementByUnicast) {
  two_hosts_of_ipv6();
  unsigned solicitations = 0;
  unsigned advertisements = 0;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    const auto message = ud ? NdMessage::parse(discovery_in(*ud)) : std::nullopt;
    if (!message) return true;
    if (message->type == NdType::neighbour_solicitation) {
      ++solicitations;
      EXPECT_EQ(ud->grh->dgid, wire::multicast_gid(b().ipv6().solicited_node(), kDefaultPKey));
    } else {
      ++advertisements;
      EXPECT_EQ(ud->bth.destination, a().link().hardware_address().qpn);
    }
    return true;
  };
  EXPECT_TRUE(reaches6(a(), b()));
  EXPECT_EQ(solicitations, 1U);
  EXPECT_EQ(advertisements, 1U);
}

TEST_F(Rfc4861, RFC4861_7_2_2_SolicitationHasTheSourceOfThePromptingPacket) {
  two_hosts_of_ipv6();
  const Ipv6Address from = a().ipv6();
  const Ipv6Address to = *Ipv6Address::parse("2001:db8::2");
  a().add_address({*Ipv6Address::parse("2001:db8::1"), 64});
  b().set_groups({to.solicited_node()});
  b().add_address({to, 64});
  world.run_for(10s);
  std::vector<Ipv6Address> sources;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    const auto message = NdMessage::parse(discovery_in(*ud));
    if (message && message->type == NdType::neighbour_solicitation) {
      sources.push_back(message->source);
    }
    return true;
  };
  a().send(ip_packet(from, to, 1));
  EXPECT_TRUE(world.run_until([&] { return b().received_from(from) == 1; }, 3s));
  EXPECT_EQ(sources, std::vector{from});
}

TEST_F(Rfc4861, RFC4391_9_3_OptionsHaveThreeUnitsAndTwoZeroBytes) {
  two_hosts_of_ipv6();
  std::vector<std::uint8_t> types;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    const ConstBytes whole = ud ? discovery_in(*ud) : ConstBytes{};
    if (whole.empty()) return true;
    const ConstBytes option = whole.last(wire::kLinkLayerOptionSize);
    types.push_back(option[0]);
    EXPECT_EQ(option[1], 3);
    EXPECT_EQ(option[2], 0);
    EXPECT_EQ(option[3], 0);
    const Host& sender = types.size() % 2 == 1 ? a() : b();
    EXPECT_TRUE(std::ranges::equal(option.subspan(4), sender.hardware().bytes()));
    return true;
  };
  EXPECT_TRUE(reaches6(a(), b()));
  EXPECT_EQ(types, (std::vector<std::uint8_t>{1, 2})) << "source and target options";
}

TEST_F(Rfc4861, RFC4861_7_2_6_NewQueuePairIsAdvertised) {
  two_hosts_of_ipv6();
  EXPECT_TRUE(reaches6(a(), b()));
  HostOptions again = ipv6_options(2);
  again.epoch = 2;
  hosts.pop_back();
  add(again);
  bring_up();
  world.run_for(5s);
  const auto known = a().link().get(b().ipv6(), world.now());
  ASSERT_TRUE(known);
  EXPECT_EQ(known->hardware, b().hardware());
  EXPECT_TRUE(reaches6(a(), b()));
}

TEST_F(Rfc4861, RFC4861_7_3_UnreachableNeighbourIsDetected) {
  two_hosts_of_ipv6();
  EXPECT_TRUE(reaches6(a(), b()));
  const Ipv6Address gone = b().ipv6();
  hosts.pop_back();
  world.run_for(2min);
  a().send(gone);
  EXPECT_TRUE(world.run_until([&] { return a().state_of(gone) == "failed"; }, 30s));
  EXPECT_EQ(a().count(Counter::nd_solicitations_unicast), config.ageing.unicast_probes);
}

TEST_F(Rfc4861, RFC4861_7_2_2_MissingNeighbourIsSolicitedAFewTimes) {
  two_hosts_of_ipv6();
  a().send(*Ipv6Address::parse("fe80::77"));
  world.run_for(20s);
  EXPECT_EQ(a().count(Counter::nd_solicitations_multicast), config.ageing.broadcast_probes);
  EXPECT_EQ(a().count(Counter::multicast_unheard), config.ageing.broadcast_probes)
      << "its solicited-node group does not exist";
}

TEST_F(Rfc4861, RFC4861_7_2_2_UnreachableIsReportedForEachQueuedPacket) {
  two_hosts_of_ipv6();
  const Ipv6Address missing = *Ipv6Address::parse("fe80::77");
  for (std::uint32_t i = 0; i < 3; ++i) a().send(missing, i);
  EXPECT_TRUE(world.run_until([&] { return a().received_from(missing) == 3; }, 10s));
  for (const auto& packet : a().tun().from_fabric) {
    const auto header = wire::Ipv6Header::parse(packet);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->next_header, wire::kIcmpv6);
    EXPECT_EQ(header->destination, a().ipv6());
    EXPECT_EQ(load_be<std::uint16_t>(&packet[wire::Ipv6Header::kSize]), 0x0103)
        << "address unreachable";
  }
  a().send(missing, 4);
  EXPECT_EQ(a().received_from(missing), 4U) << "at once while the failure is remembered";
}

}  // namespace
}  // namespace ipoib::sim
