// RFC 4390: a client that takes its TUN for an Ethernet device gets a lease from another host.
#include "wire/dhcp.hpp"

#include "tests/dhcp_packet.hpp"
#include "tests/sim/sim_fixture.hpp"

namespace ipoib::sim {
namespace {

class DhcpInSim : public Sim {
 protected:
  /// The request of the first host as the second receives it.
  [[nodiscard]] std::optional<wire::DhcpMessage> at_the_server(const DhcpPacket& packet) {
    return passes(a(), packet, b());
  }
  [[nodiscard]] std::optional<wire::DhcpMessage> passes(Host& from, const DhcpPacket& packet,
                                                        Host& to) {
    const std::size_t before = to.received();
    from.send(packet.bytes());
    if (!world.run_until([&] { return to.received() > before; }, 1s)) return std::nullopt;
    return wire::DhcpMessage::parse(to.tun().from_fabric.back());
  }
  /// A request of a client with this address.
  [[nodiscard]] static DhcpPacket renewal(Ipv4Address address) {
    DhcpPacket out;
    out.from = out.ciaddr = address;
    return out;
  }
  /// The identifier of port and partition: type, IAID, DUID-LL of hardware type 32 (RFC 4361, 6.1).
  [[nodiscard]] static std::vector<std::uint8_t> identifier_of(const Host& host, PKey pkey) {
    std::vector<std::uint8_t> out{255, 0, 0, 0, 0, 0, 3, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0};
    store_be(out.data() + 3, pkey.value());
    store_be(out.data() + 9, host.hardware().gid.guid().value());
    return out;
  }
};

TEST_F(DhcpInSim, RFC4390_2_1_RequestHasInfiniBandFields) {
  two_hosts();
  const auto message = at_the_server({});
  ASSERT_TRUE(message);
  EXPECT_EQ(message->xid, DhcpPacket::kXid);
  EXPECT_EQ(message->client.htype, 32);
  EXPECT_EQ(message->client.hlen, 0);
  EXPECT_EQ(message->client.chaddr, (std::array<std::uint8_t, 16>{}));
  ASSERT_FALSE(message->client.identifier.empty());
  EXPECT_EQ(message->client.identifier.front(), 255) << "RFC 4361";
}

TEST_F(DhcpInSim, RFC4390_2_2_BroadcastFlagOnlyWithoutAnAddress) {
  two_hosts();
  const auto without = at_the_server({});
  ASSERT_TRUE(without);
  EXPECT_TRUE(without->broadcast);
  const auto with = at_the_server(renewal(a().ip()));
  ASSERT_TRUE(with);
  EXPECT_FALSE(with->broadcast);
}

TEST_F(DhcpInSim, RFC4390_2_1_ClientIdentifierIsThatOfRfc4361) {
  two_hosts();
  for (const DhcpPacket& request : {DhcpPacket{}, DhcpPacket::without_identifier()}) {
    const auto first = at_the_server(request);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->client.identifier, identifier_of(a(), config.pkey));
    const auto second = passes(b(), request, a());
    ASSERT_TRUE(second);
    EXPECT_EQ(second->client.identifier, identifier_of(b(), config.pkey));
  }
}

/// Not the form of RFC 4361, but the operator's choice: see docs/rfc-conformance.md.
TEST_F(DhcpInSim, ConfiguredClientIdentifierIsSentUnchanged) {
  two_hosts();
  DhcpPacket chosen;
  chosen.options = {53, 1, 1, 61, 3, 0, 'm', 'e', 255};
  const auto message = at_the_server(chosen);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->client.identifier, (DhcpPacket::Bytes{0, 'm', 'e'}));
}

TEST_F(DhcpInSim, RFC4390_2_2_BroadcastReplyReachesTheClient) {
  config.dhcp_rewrite = false;
  add(1);  // a client without the broadcast flag
  config.dhcp_rewrite = true;
  add(2);
  bring_up();
  DhcpPacket request = DhcpPacket::without_identifier();
  request.htype = 32;
  request.hlen = 0;
  const auto asked = at_the_server(request);
  ASSERT_TRUE(asked);
  EXPECT_TRUE(asked->broadcast) << "its address cannot be resolved yet";
  bool to_all = false;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    to_all = ud->grh && ud->grh->dgid == wire::broadcast_gid(config.pkey);
    return true;
  };
  EXPECT_TRUE(passes(b(), DhcpPacket::reply(b().ip()), a()));
  EXPECT_TRUE(to_all);
}

TEST_F(DhcpInSim, RFC4390_2_ClientRecognisesItsReply) {
  two_hosts();
  ASSERT_TRUE(at_the_server({}));
  const auto reply = passes(b(), DhcpPacket::reply(b().ip()), a());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->kind, wire::DhcpKind::reply);
  EXPECT_EQ(reply->client.htype, 1);
  EXPECT_EQ(reply->client.hlen, 6);
  EXPECT_EQ(reply->client.identifier, (DhcpPacket::Bytes{1, 0, 0, 0, 0, 0, 0})) << "RFC 6842";
  ASSERT_TRUE(at_the_server(DhcpPacket::without_identifier()));
  const auto other = passes(b(), DhcpPacket::reply(b().ip()), a());
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->client.identifier.empty()) << "the request had none";
}

}  // namespace
}  // namespace ipoib::sim
