// RFC 4391, 6 and 9.1.1: packets on the wire, and which are accepted.
#include "tests/sim/sim_fixture.hpp"

namespace ipoib::sim {
namespace {

class Wire : public Sim {
 protected:
  using Packet = std::vector<std::uint8_t>;

  /// An IP packet from the first host to the second, on the wire.
  [[nodiscard]] Packet ip_from_a_to_b() {
    Packet seen;
    world.tap = [&seen](ConstBytes packet) {
      const auto ud = wire::UdPacket::parse(packet);
      if (ud && wire::parse_encapsulation(ud->payload) == wire::EtherType::ipv4) {
        seen.assign(packet.begin(), packet.end());
      }
      return true;
    };
    EXPECT_TRUE(reaches(a(), b()));
    world.tap = nullptr;
    return seen;
  }
  /// The first byte of its encapsulation header.
  [[nodiscard]] static std::uint8_t& encapsulation_of(Packet& packet) {
    const auto ud = wire::UdPacket::parse(packet);
    return packet[static_cast<std::size_t>(ud->payload.data() - packet.data())];
  }
  /// The ARP message in a packet of the first host to the second.
  [[nodiscard]] Packet arp_from_a() {
    Packet seen;
    world.tap = [&](ConstBytes packet) {
      const auto arp = arp_in(packet);
      if (arp && arp->sender_hardware == a().hardware()) seen.assign(packet.begin(), packet.end());
      return true;
    };
    EXPECT_TRUE(reaches(a(), b()));
    world.tap = nullptr;
    return seen;
  }
  void b_receives(const Packet& packet) {
    (void)b().receive(packet);
    b().turn();
  }
};

TEST_F(Wire, RFC4391_6_ReservedIsIgnoredOnReceipt) {
  two_hosts();
  Packet packet = ip_from_a_to_b();
  ASSERT_FALSE(packet.empty());
  const std::size_t before = b().received();
  (&encapsulation_of(packet))[2] = 0xff;
  (&encapsulation_of(packet))[3] = 0xff;
  b_receives(packet);
  EXPECT_EQ(b().received(), before + 1);
}

TEST_F(Wire, RFC4391_9_1_1_FlagsAreIgnoredOnReceipt) {
  two_hosts();
  Packet packet = arp_from_a();
  ASSERT_FALSE(packet.empty());
  b().link().flush();
  constexpr std::size_t kSenderHardware = wire::kEncapsulationSize + 8;
  (&encapsulation_of(packet))[kSenderHardware] = 0xff;
  b_receives(packet);
  ASSERT_NE(b().state_of(a().ip()), "gone");
  EXPECT_TRUE(reaches(b(), a())) << "by UD";
}

TEST_F(Wire, RFC4391_6_OtherTypesAreDropped) {
  two_hosts();
  Packet packet = ip_from_a_to_b();
  ASSERT_FALSE(packet.empty());
  const std::size_t before = b().received();
  store_be(&encapsulation_of(packet), std::uint16_t{0x88ca});  // TIPC
  b_receives(packet);
  EXPECT_EQ(b().received(), before);
  EXPECT_EQ(b().count(Counter::drop_unsupported_type), 1U);
}

}  // namespace
}  // namespace ipoib::sim
