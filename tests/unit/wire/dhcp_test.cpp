// Layouts of RFC 2131, 2 and RFC 4390, 2.1, written by hand.
#include "wire/dhcp.hpp"

#include "golden.hpp"
#include "wire/checksum.hpp"

namespace ipoib::wire {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::optional<DhcpKind> kind_in(ConstBytes packet) {
  return dhcp_kind(packet, upper_layer(packet));
}

Bytes operator+(Bytes front, const Bytes& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

/// An IPv4 packet with these UDP ports and a message, with valid lengths and checksums.
Bytes packet_of(const Bytes& message, std::string_view ports = "0044 0043") {
  auto packet = from_hex("45 10 0000 1234 4000 40 11 0000 00000000 ffffffff") + from_hex(ports) +
                from_hex("0000 0000") + message;
  const std::size_t udp_size = packet.size() - 20;
  store_be(&packet[2], static_cast<std::uint16_t>(packet.size()));
  store_be(&packet[24], static_cast<std::uint16_t>(udp_size));
  store_be(&packet[10], internet_checksum(ConstBytes(packet).first(20)));
  const auto udp = ConstBytes(packet).subspan(20);
  store_be(&packet[26], InternetChecksum()
                            .add_pseudo_header(Ipv4Address(0), Ipv4Address(0xffffffff), 17,
                                               static_cast<std::uint16_t>(udp_size))
                            .add(udp)
                            .value());
  return packet;
}

const Bytes kNames(192);  // sname and file

/// The broadcast of a client that assumes Ethernet: a DISCOVER of 300 bytes.
Bytes ethernet_discover() {
  auto message = from_hex(
                     "01 01 06 00  765f1511  0003 0000  00000000 00000000 00000000 00000000"
                     "020000000001 00000000000000000000") +
                 kNames +
                 from_hex(
                     "63825363  35 01 01  39 02 0240  37 03 01 03 06"
                     "3d 07 01 020000000001  ff");
  message.resize(300);
  return message;
}

/// The same in the form of RFC 4390.
Bytes infiniband_discover() {
  auto message = from_hex(
                     "01 20 00 00  765f1511  0003 8000  00000000 00000000 00000000 00000000"
                     "000000000000 00000000000000000000") +
                 kNames +
                 from_hex(
                     "63825363  35 01 01  39 02 0240  37 03 01 03 06"
                     "3d 11 ff 0000ffff 0003 0020 0002c90300000001  ff");
  message.resize(300);
  return message;
}

Bytes emitted(const DhcpMessage& message, const Bytes& original, std::size_t room = 4096) {
  Bytes out(room, 0xee);
  out.resize(message.emit(original, out));
  return out;
}

void expect_checksums(const Bytes& packet) {
  EXPECT_EQ(internet_checksum(ConstBytes(packet).first(20)), 0);
  const auto udp = ConstBytes(packet).subspan(20);
  EXPECT_EQ(load_be<std::uint16_t>(&packet[2]), packet.size());
  EXPECT_EQ(load_be<std::uint16_t>(&packet[24]), udp.size());
  EXPECT_EQ(InternetChecksum()
                .add_pseudo_header(Ipv4Address(0), Ipv4Address(0xffffffff), 17,
                                   static_cast<std::uint16_t>(udp.size()))
                .add(udp)
                .value(),
            0);
}

TEST(Dhcp, IsRecognisedByItsPorts) {
  const auto message = ethernet_discover();
  EXPECT_EQ(kind_in(packet_of(message)), DhcpKind::request);
  EXPECT_EQ(kind_in(packet_of(message, "0043 0044")), DhcpKind::reply);
  EXPECT_FALSE(kind_in(packet_of(message, "0043 0043"))) << "of a relay agent";
  EXPECT_FALSE(kind_in(packet_of(message, "0044 0035")));
  auto fragment = packet_of(message);
  fragment[6] = 0x20;
  EXPECT_FALSE(kind_in(fragment));
  auto tcp = packet_of(message);
  tcp[9] = 6;
  EXPECT_FALSE(kind_in(tcp));
  EXPECT_FALSE(kind_in(from_hex("45 00 0014 0000 0000 40 11 0000 00000000 ffffffff")));
}

TEST(Dhcp, ParsesTheClient) {
  const auto message = DhcpMessage::parse(packet_of(ethernet_discover()));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, DhcpKind::request);
  EXPECT_EQ(message->xid, 0x765f1511U);
  EXPECT_FALSE(message->broadcast);
  EXPECT_FALSE(message->authenticated);
  EXPECT_EQ(message->client.htype, 1);
  EXPECT_EQ(message->client.hlen, 6);
  EXPECT_EQ(message->client.chaddr[5], 1);
  EXPECT_EQ(message->client.identifier, from_hex("01 020000000001"));
}

TEST(Dhcp, RFC4390_2_1_FormOnTheWire) {
  const auto original = packet_of(ethernet_discover());
  auto message = *DhcpMessage::parse(original);
  message.client = DhcpClient{};
  message.client.identifier = dhcp_client_identifier(PKey(0xffff), Guid(0x0002c90300000001));
  message.broadcast = true;
  EXPECT_EQ(emitted(message, original), packet_of(infiniband_discover()));
}

TEST(Dhcp, EmittedMessageParsesAsTheOriginal) {
  const auto original = packet_of(ethernet_discover());
  const auto message = *DhcpMessage::parse(original);
  EXPECT_EQ(emitted(message, packet_of(infiniband_discover())), original);
  EXPECT_EQ(DhcpMessage::parse(emitted(message, original)), message);
}

TEST(Dhcp, GrowsIfThereIsNoPadding) {
  auto without_padding = ethernet_discover();
  without_padding.resize(262);  // up to the end option
  ASSERT_EQ(without_padding.back(), 0xff);
  const auto original = packet_of(without_padding);
  auto message = *DhcpMessage::parse(original);
  message.client.identifier = dhcp_client_identifier(kDefaultPKey, Guid(1));
  const auto grown = emitted(message, original);
  EXPECT_EQ(grown.size(), original.size() + 10);
  EXPECT_EQ(grown.back(), 0xff);
  expect_checksums(grown);
  EXPECT_EQ(DhcpMessage::parse(grown), message);
  EXPECT_EQ(emitted(message, original, original.size() + 10).size(), grown.size());
  EXPECT_TRUE(emitted(message, original, original.size() + 9).empty()) << "too small";
  EXPECT_TRUE(emitted(message, original, original.size() - 1).empty());
}

TEST(Dhcp, RemovesTheIdentifierFromNameFields) {
  auto body = ethernet_discover();
  std::ranges::copy(from_hex("34 01 03 ff"), body.begin() + 240);
  std::ranges::copy(from_hex("0c 01 61 3d 02 00 62 0f 01 63 ff"), body.begin() + 108);
  std::ranges::copy(from_hex("42 01 64 ff"), body.begin() + 44);
  const auto original = packet_of(body);
  auto message = *DhcpMessage::parse(original);
  EXPECT_EQ(message.client.identifier, from_hex("00 62"));
  message.client.identifier.clear();
  const auto without = emitted(message, original);
  expect_checksums(without);
  EXPECT_EQ(Bytes(&without[28 + 108], &without[28 + 119]),
            from_hex("0c 01 61 0f 01 63 ff 00 00 00 00"));
  EXPECT_EQ(Bytes(&without[28 + 44], &without[28 + 48]), from_hex("42 01 64 ff"));
  EXPECT_EQ(DhcpMessage::parse(without), message);
}

TEST(Dhcp, FindsTheIdentifierInEachNameField) {
  for (const bool in_file : {true, false}) {
    auto body = ethernet_discover();
    std::ranges::copy(from_hex(in_file ? "34 01 01 ff" : "34 01 02 ff"), body.begin() + 240);
    std::ranges::copy(from_hex("3d 02 00 62 ff"), body.begin() + (in_file ? 108 : 44));
    const auto message = DhcpMessage::parse(packet_of(body));
    ASSERT_TRUE(message);
    EXPECT_EQ(message->client.identifier, from_hex("00 62"));
  }
}

TEST(Dhcp, KeepsAMissingUdpChecksum) {
  auto original = packet_of(ethernet_discover());
  store_be(&original[26], std::uint16_t{0});
  const auto message = DhcpMessage::parse(original);
  ASSERT_TRUE(message);
  EXPECT_EQ(emitted(*message, original), original);
}

TEST(Dhcp, DetectsAuthentication) {
  auto body = ethernet_discover();
  std::ranges::copy(from_hex("5a 02 00 00 ff"), body.begin() + 240);
  EXPECT_TRUE(DhcpMessage::parse(packet_of(body))->authenticated);
}

TEST(Dhcp, RefusesMalformedMessages) {
  const auto good = packet_of(ethernet_discover());
  for (const std::size_t at : {0U, 2U, 12U, 25U, 27U, 100U}) {
    auto bad = good;
    bad[at] ^= 1;
    EXPECT_FALSE(DhcpMessage::parse(bad)) << "byte " << at;
  }
  const auto refused = [](std::size_t at, std::string_view text) {
    auto body = ethernet_discover();
    std::ranges::copy(from_hex(text), body.begin() + static_cast<std::ptrdiff_t>(at));
    return !DhcpMessage::parse(packet_of(body));
  };
  EXPECT_TRUE(refused(0, "02")) << "a reply to a server";
  EXPECT_TRUE(refused(236, "63825364"));
  EXPECT_TRUE(refused(240, "0c ff")) << "beyond the end";
  EXPECT_TRUE(refused(240, "3d 02 00 01 3d 02 00 02 ff")) << "two identifiers";
  auto without_end = ethernet_discover();
  without_end.resize(240);
  EXPECT_TRUE(DhcpMessage::parse(packet_of(without_end))) << "no options at all";
  without_end.resize(239);
  EXPECT_FALSE(DhcpMessage::parse(packet_of(without_end)));
}

TEST(Dhcp, RefusesEveryTruncation) {
  const auto good = packet_of(infiniband_discover());
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(DhcpMessage::parse(ConstBytes(good).first(size))) << size << " bytes";
  }
}

TEST(Dhcp, IdentifierDiffersByPartitionAndPort) {
  const auto one = dhcp_client_identifier(kDefaultPKey, Guid(1));
  EXPECT_NE(one, dhcp_client_identifier(PKey(0x8001), Guid(1)));
  EXPECT_NE(one, dhcp_client_identifier(kDefaultPKey, Guid(2)));
}

}  // namespace
}  // namespace ipoib::wire
