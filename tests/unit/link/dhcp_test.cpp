// DHCP of the host's clients and servers through a complete link.
#include "wire/dhcp.hpp"

#include "tests/dhcp_packet.hpp"
#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

class DhcpOverLink : public LinkFixture {
 protected:
  using Bytes = DhcpPacket::Bytes;
  /// A packet of the host or the fabric, in a frame with headroom.
  [[nodiscard]] Frame packet_of(const DhcpPacket& message) {
    const Bytes bytes = message.bytes();
    Frame frame = pool.take();
    frame.window(kHeadroom, bytes.size());
    std::ranges::copy(bytes, frame.bytes().begin());
    return frame;
  }
  void host_sends(const DhcpPacket& message) {
    Frame frame = packet_of(message);
    link->from_host({&frame, 1}, now);
  }
  /// A server's reply in the form of RFC 4390.
  void fabric_sends(const DhcpPacket& message) {
    receive(datagram(encapsulated(packet_of(message)), broadcast()));
  }
  [[nodiscard]] static std::optional<wire::DhcpMessage> parsed(const Frame& frame,
                                                               std::size_t skip) {
    return wire::DhcpMessage::parse(frame.bytes().subspan(skip));
  }
  [[nodiscard]] wire::DhcpMessage on_the_wire() const {
    return parsed(link->sends().at(0).frame, kHeadroom).value();
  }
  [[nodiscard]] wire::DhcpMessage at_the_host() const {
    return parsed(link->to_host().at(0), 0).value();
  }
  [[nodiscard]] std::vector<std::uint8_t> own_identifier() const {
    return wire::dhcp_client_identifier(kDefaultPKey, port.gid.guid());
  }
  [[nodiscard]] static DhcpPacket reply() { return DhcpPacket::reply(kPeer); }
};

/// What follows looks at the packet's headers again.
TEST_F(DhcpOverLink, ARewrittenReplyIsStillKnownAsUdp) {
  bring_up();
  host_sends({});
  fabric_sends(reply());
  ASSERT_EQ(count(Counter::dhcp_replies_rewritten), 1U);
  const Frame& frame = link->to_host().at(0);
  EXPECT_EQ(frame.upper_layer().protocol, wire::kUdp);
  EXPECT_EQ(frame.upper_layer().begin, wire::Ipv4Header::kMinimumSize);
}

TEST_F(DhcpOverLink, RFC4390_2_1_RequestHasTheFieldsOfInfiniBand) {
  bring_up();
  host_sends({});
  const auto sent = on_the_wire();
  EXPECT_EQ(sent.client.htype, 32);
  EXPECT_EQ(sent.client.hlen, 0);
  EXPECT_EQ(sent.client.chaddr, (std::array<std::uint8_t, 16>{}));
  EXPECT_EQ(sent.xid, DhcpPacket::kXid);
  EXPECT_EQ(count(Counter::dhcp_requests_rewritten), 1U);
}

TEST_F(DhcpOverLink, TheClientCanBeNamedAfterAnotherPort) {
  config.dhcp_identity = link::port_gid(9).guid();
  bring_up();
  host_sends(DhcpPacket::without_identifier());
  EXPECT_EQ(on_the_wire().client.identifier,
            wire::dhcp_client_identifier(kDefaultPKey, link::port_gid(9).guid()));
}

TEST_F(DhcpOverLink, RFC4390_2_1_RequestHasAClientIdentifier) {
  bring_up();
  host_sends(DhcpPacket::without_identifier());
  EXPECT_EQ(on_the_wire().client.identifier, own_identifier());
  EXPECT_EQ(own_identifier().front(), 255) << "RFC 4361";
  forget();
  host_sends({});
  EXPECT_EQ(on_the_wire().client.identifier, own_identifier()) << "replaces an Ethernet identifier";
}

TEST_F(DhcpOverLink, ConfiguredClientIdentifierIsSentUnchanged) {
  bring_up();
  DhcpPacket chosen;
  chosen.options = {53, 1, 1, 61, 3, 0, 'm', 'e', 255};
  host_sends(chosen);
  EXPECT_EQ(on_the_wire().client.identifier, (Bytes{0, 'm', 'e'}));
}

TEST_F(DhcpOverLink, AStationIsNamedByItsEthernetAddress) {
  config.serves_stations = true;
  view.mac = MacAddress(0x0200'0000'0001);
  bring_up();
  host_sends(DhcpPacket::without_identifier());
  const auto sent = on_the_wire();
  EXPECT_EQ(sent.client.htype, 32);
  EXPECT_TRUE(sent.broadcast);
  EXPECT_EQ(sent.client.identifier, (Bytes{255, 0, 0, 0, 0, 0, 3, 0, 1, 2, 0, 0, 0, 0, 0}));
  forget();
  DhcpPacket named = DhcpPacket::without_identifier();
  named.options = {53, 1, 1, 61, 7, 1, 2, 0, 0, 0, 0, 0x77, 255};
  host_sends(named);
  EXPECT_EQ(on_the_wire().client.identifier, (Bytes{1, 2, 0, 0, 0, 0, 0x77})) << "its own";
}

TEST_F(DhcpOverLink, ClientsOfTheHostItselfAreNamedByThePort) {
  config.serves_stations = true;
  view.mac = MacAddress(0x0200'0000'0000);
  bring_up();
  host_sends(DhcpPacket::without_identifier());
  EXPECT_EQ(on_the_wire().client.identifier, own_identifier());
}

TEST_F(DhcpOverLink, RepliesAreMatchedToStationsWithOneTransactionId) {
  config.serves_stations = true;
  view.mac = MacAddress(0x0200'0000'0001);
  bring_up();
  for (const std::uint8_t last : {std::uint8_t{0x77}, std::uint8_t{0x78}}) {
    DhcpPacket named = DhcpPacket::without_identifier();
    named.options = {53, 1, 1, 61, 7, 1, 2, 0, 0, 0, 0, last, 255};
    host_sends(named);
  }
  DhcpPacket to_second = reply();
  to_second.options = {53, 1, 2, 61, 7, 1, 2, 0, 0, 0, 0, 0x78, 255};
  fabric_sends(to_second);
  EXPECT_EQ(at_the_host().client.htype, 1);
  EXPECT_EQ(at_the_host().client.identifier.back(), 0x78);
  forget();
  fabric_sends(reply());
  EXPECT_EQ(at_the_host().client.htype, 32) << "it may be for either";
}

TEST_F(DhcpOverLink, AStationRenewsItsLease) {
  config.serves_stations = true;
  config.reports_neighbours = true;
  view.mac = MacAddress(0x0200'0000'0001);
  bring_up();
  resolve_peer();
  constexpr Ipv4Address kStation{0x0a2c0011};
  link->serve(kStation, false, now);
  DhcpPacket renewal = DhcpPacket::without_identifier();
  renewal.from = renewal.ciaddr = kStation;
  renewal.to = kPeer;
  host_sends(renewal);
  EXPECT_EQ(on_the_wire().client.htype, 32);
}

TEST_F(DhcpOverLink, RFC4390_2_2_BroadcastFlagIsSetWithoutAnAddress) {
  bring_up();
  host_sends({});
  EXPECT_TRUE(on_the_wire().broadcast);
}

TEST_F(DhcpOverLink, RFC4390_2_2_BroadcastFlagIsNotSetWithAnAddress) {
  bring_up();
  resolve_peer();
  DhcpPacket renewal;
  renewal.from = renewal.ciaddr = kOwnIp;
  renewal.to = kPeer;
  renewal.broadcast = true;
  host_sends(renewal);
  const auto sent = on_the_wire();
  EXPECT_FALSE(sent.broadcast);
  EXPECT_EQ(sent.client.htype, 32);
  EXPECT_EQ(sent.ciaddr, kOwnIp);
}

TEST_F(DhcpOverLink, ReplyIsRewrittenToTheFormOfTheRequest) {
  bring_up();
  host_sends({});
  fabric_sends(reply());
  const auto client = at_the_host().client;
  EXPECT_EQ(client.htype, 1);
  EXPECT_EQ(client.hlen, 6);
  EXPECT_EQ(client.chaddr[0], 2);
  EXPECT_EQ(client.identifier, (Bytes{1, 0, 0, 0, 0, 0, 0})) << "RFC 6842: as in the request";
  EXPECT_EQ(count(Counter::dhcp_replies_rewritten), 1U);
}

TEST_F(DhcpOverLink, RFC6842_3_ReplyHasNoIdentifierIfTheRequestHadNone) {
  bring_up();
  host_sends(DhcpPacket::without_identifier());
  fabric_sends(reply());
  EXPECT_TRUE(at_the_host().client.identifier.empty());
}

TEST_F(DhcpOverLink, RepliesToOthersAreNotChanged) {
  bring_up();
  host_sends({});
  DhcpPacket other = reply();
  other.xid = DhcpPacket::kXid + 1;
  fabric_sends(other);
  EXPECT_EQ(at_the_host().client.htype, 32);
  forget();
  now += 10min;
  fabric_sends(reply());
  EXPECT_EQ(at_the_host().client.htype, 32) << "an expired transaction";
  EXPECT_EQ(count(Counter::dhcp_replies_rewritten), 0U);
}

TEST_F(DhcpOverLink, TransactionsAreLimited) {
  bring_up();
  DhcpPacket one;
  for (one.xid = 1; one.xid <= 64; ++one.xid) {
    host_sends(one);
    now += 1ms;
  }
  EXPECT_EQ(count(Counter::dhcp_transactions_evicted), 0U);
  host_sends(one);
  EXPECT_EQ(count(Counter::dhcp_transactions_evicted), 1U);
  DhcpPacket to_first = reply();
  to_first.xid = 1;
  fabric_sends(to_first);
  EXPECT_EQ(at_the_host().client.htype, 32) << "the oldest transaction is evicted";
  // Replacing expired transactions is no eviction.
  now += 10min;
  ++one.xid;
  host_sends(one);
  EXPECT_EQ(count(Counter::dhcp_transactions_evicted), 1U);
}

TEST_F(DhcpOverLink, ConformingRequestsAreNotChanged) {
  bring_up();
  DhcpPacket conforming;
  conforming.htype = 32;
  conforming.hlen = 0;
  conforming.broadcast = true;
  conforming.options = {53, 1, 1, 61, 3, 255, 0, 1, 255};
  host_sends(conforming);
  EXPECT_EQ(on_the_wire().client.identifier, (Bytes{255, 0, 1}));
  EXPECT_EQ(count(Counter::dhcp_requests_rewritten), 0U);
}

TEST_F(DhcpOverLink, RequestsOfOtherLinksAreNotChanged) {
  bring_up();
  resolve_peer();
  DhcpPacket relayed;
  relayed.giaddr = kOwnIp;
  host_sends(relayed);
  EXPECT_EQ(on_the_wire().client.htype, 1);
  forget();
  DhcpPacket forwarded;
  forwarded.from = forwarded.ciaddr = Ipv4Address(0x0a2d0001);
  forwarded.to = kPeer;
  host_sends(forwarded);
  EXPECT_EQ(on_the_wire().client.htype, 1);
  EXPECT_EQ(count(Counter::dhcp_requests_rewritten), 0U);
}

TEST_F(DhcpOverLink, IsNotChangedWithoutRoom) {
  bring_up();
  DhcpPacket large;
  large.size = 2044 - 28;
  large.options = {53, 1, 1};
  for (std::size_t left = large.size - 240 - 4; left > 1;) {
    const std::size_t length = std::min<std::size_t>(left - 2, 255);
    large.options.push_back(43);
    large.options.push_back(static_cast<std::uint8_t>(length));
    large.options.insert(large.options.end(), length, 1);
    left -= length + 2;
  }
  large.options.push_back(255);
  host_sends(large);
  EXPECT_EQ(link->sends().at(0).frame.size(), 2048U);
  EXPECT_EQ(on_the_wire().client.htype, 1);
  EXPECT_EQ(count(Counter::dhcp_left_alone), 1U);
}

TEST_F(DhcpOverLink, AuthenticatedOrMalformedMessagesAreNotChanged) {
  bring_up();
  DhcpPacket authenticated;
  authenticated.options = {53, 1, 1, 90, 1, 0, 255};
  host_sends(authenticated);
  EXPECT_EQ(on_the_wire().client.htype, 1);
  forget();
  DhcpPacket malformed;
  malformed.options.assign(60, 12);
  host_sends(malformed);
  EXPECT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(count(Counter::dhcp_left_alone), 2U);
}

TEST_F(DhcpOverLink, ServerGetsTheBroadcastFlag) {
  bring_up();
  DhcpPacket request;
  request.from = Ipv4Address(0);
  request.htype = 32;
  request.hlen = 8;
  fabric_sends(request);
  EXPECT_TRUE(at_the_host().broadcast) << "it cannot be answered otherwise";
  EXPECT_EQ(at_the_host().client.hlen, 8);
  EXPECT_EQ(at_the_host().client.chaddr[0], 2);
  EXPECT_EQ(count(Counter::dhcp_requests_mended), 1U);
  forget();
  request.hlen = 0;
  request.broadcast = true;
  fabric_sends(request);
  EXPECT_EQ(count(Counter::dhcp_requests_mended), 1U) << "already has the flag";
  forget();
  request.broadcast = false;
  request.ciaddr = request.from = kPeer;
  fabric_sends(request);
  EXPECT_FALSE(at_the_host().broadcast) << "its address is known";
}

TEST_F(DhcpOverLink, CanBeDisabled) {
  config.dhcp_rewrite = false;
  bring_up();
  host_sends({});
  EXPECT_EQ(on_the_wire().client.htype, 1);
  DhcpPacket request;
  request.htype = 32;
  fabric_sends(request);
  EXPECT_FALSE(at_the_host().broadcast);
}

}  // namespace
}  // namespace ipoib::link
