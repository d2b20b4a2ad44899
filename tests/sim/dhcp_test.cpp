// RFC 4390: a client that takes its TUN for an Ethernet gets a lease from a server on another host.
#include "wire/dhcp.hpp"

#include "tests/sim/sim_fixture.hpp"
#include "wire/checksum.hpp"

namespace ipoib::sim {
namespace {

constexpr Ipv4Address kAnybody{0xffffffff};
constexpr std::uint32_t kXid = 0x11223344;
constexpr std::size_t kIpAndUdp = 28;
constexpr std::size_t kMessageSize = 300;

class DhcpInSim : public Sim {
 protected:
  using Packet = MemoryTun::Packet;

  /// What udhcpc and others send on an interface without a hardware address.
  [[nodiscard]] static Packet request(Ipv4Address ciaddr = {}) {
    Packet packet(kIpAndUdp + kMessageSize);
    ByteWriter out(packet);
    out.u16(0x4510);
    out.u16(static_cast<std::uint16_t>(packet.size()));
    out.u32(0);
    out.u32(0x40110000);
    out.bytes(ciaddr.bytes());
    out.bytes(kAnybody.bytes());
    out.u16(68);
    out.u16(67);
    out.u16(8 + kMessageSize);
    out.u16(0);
    out.u32(0x01010600);  // BOOTREQUEST, htype 1, hlen 6
    out.u32(kXid);
    out.u32(0);
    out.bytes(ciaddr.bytes());
    out.zeros(12 + 16 + 192);
    out.u32(0x63825363);
    out.u32(0x350101ff);  // DHCPDISCOVER
    store_be(packet.data() + 10, wire::internet_checksum(ConstBytes(packet).first(20)));
    return packet;
  }
  /// A server's answer to what it got, by broadcast.
  [[nodiscard]] static Packet reply_to(Packet packet, Ipv4Address from) {
    std::ranges::copy(from.bytes(), packet.begin() + 12);
    std::ranges::copy(kAnybody.bytes(), packet.begin() + 16);
    store_be(packet.data() + 10, std::uint16_t{0});
    store_be(packet.data() + 10, wire::internet_checksum(ConstBytes(packet).first(20)));
    store_be(packet.data() + 20, std::uint32_t{67U << 16 | 68});
    store_be(packet.data() + 26, std::uint16_t{0});  // no UDP checksum
    packet[kIpAndUdp] = 2;                           // BOOTREPLY
    return packet;
  }
  /// What the second host gets of a request of the first.
  [[nodiscard]] std::optional<wire::DhcpMessage> at_the_server(Packet packet) {
    const std::size_t before = b().received();
    a().send(std::move(packet));
    if (!world.run_until([&] { return b().received() > before; }, 1s)) return std::nullopt;
    return wire::DhcpMessage::parse(b().tun().from_fabric.back());
  }
};

TEST_F(DhcpInSim, RFC4390_2_1_RequestIsThatOfInfiniBand) {
  two_hosts();
  const auto message = at_the_server(request());
  ASSERT_TRUE(message);
  EXPECT_EQ(message->xid, kXid);
  EXPECT_EQ(message->client.htype, 32);
  EXPECT_EQ(message->client.hlen, 0);
  EXPECT_EQ(message->client.chaddr, (std::array<std::uint8_t, 16>{}));
  ASSERT_FALSE(message->client.identifier.empty());
  EXPECT_EQ(message->client.identifier.front(), 255) << "RFC 4361";
}

TEST_F(DhcpInSim, RFC4390_2_2_BroadcastIsAskedForWithoutAnAddressAlone) {
  two_hosts();
  const auto without = at_the_server(request());
  ASSERT_TRUE(without);
  EXPECT_TRUE(without->broadcast);
  const auto with = at_the_server(request(a().ip()));
  ASSERT_TRUE(with);
  EXPECT_FALSE(with->broadcast);
}

TEST_F(DhcpInSim, RFC4390_2_TheClientKnowsItsReply) {
  two_hosts();
  ASSERT_TRUE(at_the_server(request()));
  b().send(reply_to(b().tun().from_fabric.back(), b().ip()));
  ASSERT_TRUE(world.run_until([&] { return a().received() > 0; }, 1s));
  const auto reply = wire::DhcpMessage::parse(a().tun().from_fabric.back());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->kind, wire::DhcpKind::reply);
  EXPECT_EQ(reply->client.htype, 1);
  EXPECT_EQ(reply->client.hlen, 6);
  EXPECT_TRUE(reply->client.identifier.empty()) << "it has sent none";
}

}  // namespace
}  // namespace ipoib::sim
