// The Ethernet view of a host whose peers see an IPoIB interface.
#include "wire/ethernet.hpp"

#include "tests/sim/sim_fixture.hpp"
#include "wire/arp.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::sim {
namespace {

using wire::ArpOperation;
using wire::EthernetArp;
using wire::EthernetHeader;
using wire::EtherType;
using wire::NdMessage;
using wire::NdType;

constexpr MacAddress kMac{0x0200'0000'0001};

/// Host a has a TAP, host b a TUN.
class EthernetSim : public Sim {
 protected:
  void two_hosts_with_tap(bool ipv6 = false) {
    HostOptions first = options(1);
    first.mac = kMac;
    first.ipv6 = ipv6;
    add(first);
    HostOptions second = options(2);
    second.ipv6 = ipv6;
    add(second);
    bring_up();
    world.run_for(5s);
    a().tun().from_fabric.clear();
  }
  [[nodiscard]] MacAddress mac_of(const Host& peer) {
    return a().ethernet()->mac_of(peer.hardware());
  }
  static MemoryTun::Packet frame(MacAddress to, EtherType type, ConstBytes packet) {
    MemoryTun::Packet out(EthernetHeader::kSize);
    EthernetHeader{to, kMac, static_cast<std::uint16_t>(type)}.emit(out.data());
    out.insert(out.end(), packet.begin(), packet.end());
    return out;
  }
  void ask_for(Ipv4Address target) {
    std::vector<std::uint8_t> bytes(EthernetArp::kSize);
    EthernetArp{.operation = ArpOperation::request,
                .sender_hardware = kMac,
                .sender_protocol = a().ip(),
                .target_hardware = {},
                .target_protocol = target}
        .emit(bytes);
    a().send(frame(kBroadcastMac, EtherType::arp, bytes));
  }
  /// The ARP messages that the host has received.
  [[nodiscard]] std::vector<EthernetArp> arps() {
    std::vector<EthernetArp> out;
    for (const auto& received : a().tun().from_fabric) {
      if (!is_type(EthernetHeader::parse(received.data()), EtherType::arp)) continue;
      out.push_back(*EthernetArp::parse(ConstBytes(received).subspan(EthernetHeader::kSize)));
    }
    return out;
  }
  [[nodiscard]] bool gets_arp() {
    return world.run_until([this] { return !arps().empty(); }, 2s);
  }
};

TEST_F(EthernetSim, AnArpRequestIsAnsweredByTheNeighbour) {
  two_hosts_with_tap();
  ask_for(b().ip());
  ASSERT_TRUE(gets_arp());
  EXPECT_EQ(arps().at(0),
            (EthernetArp{ArpOperation::reply, mac_of(b()), b().ip(), kMac, a().ip()}));
}

TEST_F(EthernetSim, AskingAgainAsksTheNeighbourAgain) {
  two_hosts_with_tap();
  ask_for(b().ip());
  ASSERT_TRUE(gets_arp());
  world.run_for(1s);
  a().tun().from_fabric.clear();
  unsigned requests = 0;
  world.tap = [&](ConstBytes packet) {
    const auto arp = arp_in(packet);
    if (arp && arp->operation == ArpOperation::request) ++requests;
    return true;
  };
  ask_for(b().ip());
  ASSERT_TRUE(gets_arp());
  EXPECT_EQ(requests, 1U);
  remove(b());
  a().tun().from_fabric.clear();
  ask_for(address_of(2));
  EXPECT_FALSE(gets_arp()) << "no answer from the cache";
}

TEST_F(EthernetSim, ARequestForAnAddressThatNobodyHasIsNotAnswered) {
  two_hosts_with_tap();
  ask_for(address_of(77));
  EXPECT_FALSE(gets_arp());
}

TEST_F(EthernetSim, PacketsPassBothWays) {
  two_hosts_with_tap();
  ask_for(b().ip());
  ASSERT_TRUE(gets_arp());
  a().send(frame(mac_of(b()), EtherType::ipv4, ip_packet(a().ip(), b().ip(), 7)));
  ASSERT_TRUE(world.run_until([this] { return b().received_from(a().ip()) == 1; }, 1s));
  EXPECT_EQ(b().tun().from_fabric.back(), ip_packet(a().ip(), b().ip(), 7));

  a().tun().from_fabric.clear();
  b().send(a().ip(), 8);
  ASSERT_TRUE(world.run_until([this] { return a().received() == 1; }, 1s));
  const auto& received = a().tun().from_fabric.at(0);
  EXPECT_EQ(EthernetHeader::parse(received.data()),
            (EthernetHeader{kMac, mac_of(b()), static_cast<std::uint16_t>(EtherType::ipv4)}));
  EXPECT_TRUE(std::ranges::equal(ConstBytes(received).subspan(EthernetHeader::kSize),
                                 ip_packet(b().ip(), a().ip(), 8)));
}

TEST_F(EthernetSim, AFrameToAGatewayGoesToItsQueuePair) {
  two_hosts_with_tap();
  ask_for(b().ip());
  ASSERT_TRUE(gets_arp());
  const Ipv4Address far(0x08080808);
  a().send(frame(mac_of(b()), EtherType::ipv4, ip_packet(a().ip(), far, 7)));
  EXPECT_TRUE(world.run_until([this] { return b().received_from(a().ip()) == 1; }, 1s));
}

TEST_F(EthernetSim, ANeighbourWithAnotherQueuePairIsAnnounced) {
  two_hosts_with_tap();
  ask_for(b().ip());
  ASSERT_TRUE(gets_arp());
  const MacAddress before = mac_of(b());
  a().tun().from_fabric.clear();
  remove(b());
  HostOptions again = options(2);
  again.epoch = 2;
  add(again);
  ASSERT_TRUE(world.run_until([this] { return !arps().empty(); }, 60s));
  EXPECT_NE(mac_of(b()), before);
  EXPECT_EQ(arps().at(0),
            (EthernetArp{ArpOperation::request, mac_of(b()), b().ip(), {}, b().ip()}));
}

TEST_F(EthernetSim, AnErrorOfTheLinkReachesTheHost) {
  two_hosts_with_tap();
  ask_for(b().ip());
  ASSERT_TRUE(gets_arp());
  a().tun().from_fabric.clear();
  a().send(frame(mac_of(b()), EtherType::ipv4, ip_packet(a().ip(), b().ip(), 7, 3000)));
  ASSERT_EQ(a().received(), 1U);
  const auto& received = a().tun().from_fabric.at(0);
  EXPECT_EQ(EthernetHeader::parse(received.data()).destination, kMac);
  EXPECT_EQ(load_be<std::uint16_t>(&received[EthernetHeader::kSize + 20]), 0x0304)
      << "fragmentation needed";
}

TEST_F(EthernetSim, ASolicitationIsAnsweredByTheNeighbour) {
  two_hosts_with_tap(true);
  NdMessage message;
  message.source = a().ipv6();
  message.target = b().ipv6();
  message.destination = b().ipv6().solicited_node();
  std::vector<std::uint8_t> bytes(NdMessage::kMaxEmitted);
  bytes.resize(message.emit(bytes));
  a().send(frame(wire::multicast_mac(message.destination), EtherType::ipv6, bytes));
  const auto is_answered = [this] {
    return std::ranges::any_of(a().tun().from_fabric, [this](const MemoryTun::Packet& received) {
      const ConstBytes packet = ConstBytes(received).subspan(EthernetHeader::kSize);
      const auto answer = NdMessage::parse(packet);
      return answer && answer->type == NdType::neighbour_advertisement &&
             answer->target == b().ipv6() &&
             std::ranges::equal(packet.last(MacAddress::kSize), mac_of(b()).bytes());
    });
  };
  EXPECT_TRUE(world.run_until(is_answered, 5s));
}

}  // namespace
}  // namespace ipoib::sim
