// DHCP of the host's clients and servers, through a whole link.
#include "wire/dhcp.hpp"

#include "tests/unit/link/link_fixture.hpp"
#include "wire/checksum.hpp"

namespace ipoib::link {
namespace {

constexpr Ipv4Address kAnybody{0xffffffff};
constexpr std::uint32_t kXid = 0x11223344;

class DhcpOverLink : public LinkFixture {
 protected:
  using Octets = std::vector<std::uint8_t>;
  /// A client identifier of an Ethernet's form, and an end.
  static Octets ethernet_options() { return {53, 1, 1, 61, 7, 1, 0, 0, 0, 0, 0, 0, 255}; }
  struct Message {
    bool is_reply = false;
    Ipv4Address from;
    Ipv4Address to = kAnybody;
    std::uint32_t xid = kXid;
    std::uint8_t htype = 1;
    std::uint8_t hlen = 6;
    bool broadcast = false;
    Ipv4Address ciaddr;
    Ipv4Address giaddr;
    Octets options = ethernet_options();
    std::size_t size = 300;
  };

  /// A packet of the host, or of a datagram, in a frame with the headroom that a link needs.
  [[nodiscard]] Frame packet_of(const Message& message) {
    constexpr std::size_t kHeaders = 28;
    Frame frame = pool.take();
    frame.window(kHeadroom, kHeaders + message.size);
    const MutableBytes packet = frame.bytes();
    ByteWriter out(packet);
    out.bytes(Octets{0x45, 0x10});
    out.u16(static_cast<std::uint16_t>(packet.size()));
    out.u32(0);
    out.bytes(Octets{64, 17, 0, 0});
    out.bytes(message.from.bytes());
    out.bytes(message.to.bytes());
    out.u16(message.is_reply ? 67 : 68);
    out.u16(message.is_reply ? 68 : 67);
    out.u16(static_cast<std::uint16_t>(8 + message.size));
    out.u16(0);
    out.bytes(Octets{message.is_reply ? std::uint8_t{2} : std::uint8_t{1}, message.htype,
                     message.hlen, 0});
    out.u32(message.xid);
    out.u16(0);
    out.u16(message.broadcast ? 0x8000 : 0);
    out.bytes(message.ciaddr.bytes());
    out.zeros(8);
    out.bytes(message.giaddr.bytes());
    const std::uint8_t first_of_chaddr = message.hlen == 0 ? 0 : 2;
    out.u8(first_of_chaddr);
    out.zeros(15 + 192);
    out.u32(0x63825363);
    out.bytes(message.options);
    out.zeros(packet.size() - out.written());
    store_be(packet.data() + 10, wire::internet_checksum(packet.first(20)));
    return frame;
  }
  void host_sends(const Message& message) {
    Frame frame = packet_of(message);
    link->from_host({&frame, 1}, now);
  }
  /// The message as the client of the host knows it, answered by a server in the form of the wire.
  void fabric_sends(const Message& message) {
    hear(datagram(encapsulated(packet_of(message)), broadcast()));
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
  static Message reply() {
    Message message;
    message.is_reply = true;
    message.from = kPeer;
    message.htype = 32;
    message.hlen = 0;
    message.options = {53, 1, 2, 61, 2, 255, 1, 255};
    return message;
  }
};

TEST_F(DhcpOverLink, RFC4390_2_1_RequestHasTheFieldsOfInfiniBand) {
  bring_up();
  host_sends({});
  const auto sent = on_the_wire();
  EXPECT_EQ(sent.client.htype, 32);
  EXPECT_EQ(sent.client.hlen, 0);
  EXPECT_EQ(sent.client.chaddr, (std::array<std::uint8_t, 16>{}));
  EXPECT_EQ(sent.xid, kXid);
  EXPECT_EQ(count(Counter::dhcp_requests_rewritten), 1U);
}

TEST_F(DhcpOverLink, RFC4390_2_1_RequestHasAClientIdentifier) {
  bring_up();
  Message without;
  without.options = {53, 1, 1, 255};
  host_sends(without);
  EXPECT_EQ(on_the_wire().client.identifier, own_identifier());
  EXPECT_EQ(own_identifier().front(), 255) << "RFC 4361";
  forget();
  host_sends({});
  EXPECT_EQ(on_the_wire().client.identifier, own_identifier()) << "in place of an Ethernet's";
  forget();
  Message chosen;
  chosen.options = {53, 1, 1, 61, 3, 0, 'm', 'e', 255};
  host_sends(chosen);
  EXPECT_EQ(on_the_wire().client.identifier, (Octets{0, 'm', 'e'})) << "as it was told to";
}

TEST_F(DhcpOverLink, RFC4390_2_2_BroadcastFlagIsSetWithoutAnAddress) {
  bring_up();
  host_sends({});
  EXPECT_TRUE(on_the_wire().broadcast);
}

TEST_F(DhcpOverLink, RFC4390_2_2_BroadcastFlagIsNotSetWithAnAddress) {
  bring_up();
  meet_peer();
  Message renewal;
  renewal.from = renewal.ciaddr = kOwnIp;
  renewal.to = kPeer;
  renewal.broadcast = true;
  host_sends(renewal);
  const auto sent = on_the_wire();
  EXPECT_FALSE(sent.broadcast);
  EXPECT_EQ(sent.client.htype, 32);
  EXPECT_EQ(sent.ciaddr, kOwnIp);
}

TEST_F(DhcpOverLink, ReplyHasTheFormThatTheClientKnows) {
  bring_up();
  host_sends({});
  fabric_sends(reply());
  const auto client = at_the_host().client;
  EXPECT_EQ(client.htype, 1);
  EXPECT_EQ(client.hlen, 6);
  EXPECT_EQ(client.chaddr[0], 2);
  EXPECT_EQ(client.identifier, (Octets{1, 0, 0, 0, 0, 0, 0})) << "RFC 6842: as it was sent";
  EXPECT_EQ(count(Counter::dhcp_replies_rewritten), 1U);
}

TEST_F(DhcpOverLink, RFC6842_3_NoIdentifierComesBackToAClientThatSentNone) {
  bring_up();
  Message without;
  without.options = {53, 1, 1, 255};
  host_sends(without);
  fabric_sends(reply());
  EXPECT_TRUE(at_the_host().client.identifier.empty());
}

TEST_F(DhcpOverLink, RepliesToOthersAreLeftAlone) {
  bring_up();
  host_sends({});
  Message other = reply();
  other.xid = kXid + 1;
  fabric_sends(other);
  EXPECT_EQ(at_the_host().client.htype, 32);
  forget();
  now += 10min;
  fabric_sends(reply());
  EXPECT_EQ(at_the_host().client.htype, 32) << "of a transaction long past";
  EXPECT_EQ(count(Counter::dhcp_replies_rewritten), 0U);
}

TEST_F(DhcpOverLink, ClientsAtATimeAreBounded) {
  bring_up();
  Message one;
  for (one.xid = 1; one.xid <= 64; ++one.xid) {
    host_sends(one);
    now += 1ms;
  }
  EXPECT_EQ(count(Counter::dhcp_transactions_evicted), 0U);
  host_sends(one);
  EXPECT_EQ(count(Counter::dhcp_transactions_evicted), 1U);
  Message to_first = reply();
  to_first.xid = 1;
  fabric_sends(to_first);
  EXPECT_EQ(at_the_host().client.htype, 32) << "the oldest is forgotten";
  // Those that are over make room for nothing.
  now += 10min;
  ++one.xid;
  host_sends(one);
  EXPECT_EQ(count(Counter::dhcp_transactions_evicted), 1U);
}

TEST_F(DhcpOverLink, ConformingRequestsAreLeftAlone) {
  bring_up();
  Message conforming;
  conforming.htype = 32;
  conforming.hlen = 0;
  conforming.broadcast = true;
  conforming.options = {53, 1, 1, 61, 3, 255, 0, 1, 255};
  host_sends(conforming);
  EXPECT_EQ(on_the_wire().client.identifier, (Octets{255, 0, 1}));
  EXPECT_EQ(count(Counter::dhcp_requests_rewritten), 0U);
}

TEST_F(DhcpOverLink, ClientsOfOtherLinksAreLeftAlone) {
  bring_up();
  meet_peer();
  Message relayed;
  relayed.giaddr = kOwnIp;
  host_sends(relayed);
  EXPECT_EQ(on_the_wire().client.htype, 1);
  forget();
  Message forwarded;
  forwarded.from = forwarded.ciaddr = Ipv4Address(0x0a2d0001);
  forwarded.to = kPeer;
  host_sends(forwarded);
  EXPECT_EQ(on_the_wire().client.htype, 1);
  EXPECT_EQ(count(Counter::dhcp_requests_rewritten), 0U);
}

TEST_F(DhcpOverLink, WithoutRoomItIsLeftAlone) {
  bring_up();
  Message large;
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

TEST_F(DhcpOverLink, AuthenticatedOrMalformedItIsLeftAlone) {
  bring_up();
  Message authenticated;
  authenticated.options = {53, 1, 1, 90, 1, 0, 255};
  host_sends(authenticated);
  EXPECT_EQ(on_the_wire().client.htype, 1);
  forget();
  Message malformed;
  malformed.options.assign(60, 12);
  host_sends(malformed);
  EXPECT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(count(Counter::dhcp_left_alone), 2U);
}

TEST_F(DhcpOverLink, ServerIsAskedForABroadcast) {
  bring_up();
  Message request;
  request.from = Ipv4Address(0);
  request.htype = 32;
  request.hlen = 8;
  fabric_sends(request);
  EXPECT_TRUE(at_the_host().broadcast) << "there is no other way to answer it";
  EXPECT_EQ(at_the_host().client.hlen, 8);
  EXPECT_EQ(at_the_host().client.chaddr[0], 2);
  EXPECT_EQ(count(Counter::dhcp_requests_mended), 1U);
  forget();
  request.hlen = 0;
  request.broadcast = true;
  fabric_sends(request);
  EXPECT_EQ(count(Counter::dhcp_requests_mended), 1U) << "in order";
  forget();
  request.broadcast = false;
  request.ciaddr = request.from = kPeer;
  fabric_sends(request);
  EXPECT_FALSE(at_the_host().broadcast) << "it can be answered at its address";
}

TEST_F(DhcpOverLink, CanBeTurnedOff) {
  config.dhcp_rewrite = false;
  bring_up();
  host_sends({});
  EXPECT_EQ(on_the_wire().client.htype, 1);
  Message request;
  request.htype = 32;
  fabric_sends(request);
  EXPECT_FALSE(at_the_host().broadcast);
}

}  // namespace
}  // namespace ipoib::link
