#include "wire/neighbour_discovery.hpp"

#include "golden.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::wire {
namespace {

bool is_discovery(ConstBytes packet) { return is_neighbour_discovery(packet, upper_layer(packet)); }

const HwAddress kHardware{0, Qpn(0x401), *Gid::parse("fe80::2:c903:0:1")};
const Ipv6Address kOne = *Ipv6Address::parse("fe80::2:c903:0:1");
const Ipv6Address kTwo = *Ipv6Address::parse("fe80::2:c903:0:102");

const auto kSolicitation = from_hex(
    "6000000000303aff fe800000000000000002c90300000001 ff0200000000000000000001ff000102"
    "8700 1cf2 00000000 fe800000000000000002c90300000102"
    "01 03 0000 00000401 fe80000000000000 0002c90300000001");
const auto kAdvertisement = from_hex(
    "6000000000303aff fe800000000000000002c90300000102 fe800000000000000002c90300000001"
    "8800 f16f 60000000 fe800000000000000002c90300000102"
    "02 03 0000 00000401 fe80000000000000 0002c90300000001");
const auto kDuplicateAddressDetection = from_hex(
    "6000000000183aff 00000000000000000000000000000000 ff0200000000000000000001ff000102"
    "8700 b11d 00000000 fe800000000000000002c90300000102");
const auto kRouterSolicitation = from_hex(
    "6000000000083aff fe800000000000000002c90300000001 ff020000000000000000000000000002"
    "8500 b430 00000000");
const auto kRouterSolicitationWithAddress = from_hex(
    "6000000000203aff fe800000000000000002c90300000001 ff020000000000000000000000000002"
    "8500 e78c 00000000 01 03 0000 00000401 fe80000000000000 0002c90300000001");
// With a prefix option, after the source link-layer option and without that.
const auto kRouterAdvertisement = from_hex(
    "6000000000483aff fe800000000000000002c90300000001 ff020000000000000000000000000001"
    "8600 d4d6 40000708 00000000 00000000 01 03 0000 00000401 fe80000000000000 0002c90300000001"
    "03 04 40 c0 00015180 00003840 00000000 fd000000000000000000000000000000");
const auto kRouterAdvertisementStripped = from_hex(
    "6000000000303aff fe800000000000000002c90300000001 ff020000000000000000000000000001"
    "8600 a17a 40000708 00000000 00000000"
    "03 04 40 c0 00015180 00003840 00000000 fd000000000000000000000000000000");
const auto kRedirect = from_hex(
    "6000000000403aff fe800000000000000000000000000001 fd000000000000000000000000000005"
    "8900 e7dd 00000000 fe800000000000000002c90300000102 fd010000000000000000000000000009"
    "02 03 0000 00000401 fe80000000000000 0002c90300000001");

/// The packet with one byte of the ICMPv6 message set, and a valid checksum.
std::vector<std::uint8_t> with(std::vector<std::uint8_t> packet, std::size_t at,
                               std::uint8_t value) {
  packet[40 + at] = value;
  store_be(&packet[42], std::uint16_t{0});
  const auto header = *Ipv6Header::parse(packet);
  const auto message = ConstBytes(packet).subspan(40);
  store_be(&packet[42], InternetChecksum()
                            .add_pseudo_header(header.source, header.destination, 58,
                                               static_cast<std::uint32_t>(message.size()))
                            .add(message)
                            .value());
  return packet;
}

std::vector<std::uint8_t> emitted(const NdMessage& message) {
  std::vector<std::uint8_t> bytes(NdMessage::kMaxEmitted);
  bytes.resize(message.emit(bytes));
  return bytes;
}

TEST(NeighbourDiscovery, SolicitationHasTheLayoutOfRfc4861AndRfc4391) {
  NdMessage message;
  message.type = NdType::neighbour_solicitation;
  message.source = kOne;
  message.destination = kTwo.solicited_node();
  message.target = kTwo;
  message.source_link_layer = kHardware;
  EXPECT_EQ(NdMessage::parse(kSolicitation), message);
  EXPECT_EQ(emitted(message), kSolicitation);
}

TEST(NeighbourDiscovery, AdvertisementCarriesFlagsAndTarget) {
  NdMessage message;
  message.type = NdType::neighbour_advertisement;
  message.source = kTwo;
  message.destination = kOne;
  message.target = kTwo;
  message.is_solicited = true;
  message.overrides = true;
  message.target_link_layer = kHardware;
  EXPECT_EQ(NdMessage::parse(kAdvertisement), message);
  EXPECT_EQ(emitted(message), kAdvertisement);
}

TEST(NeighbourDiscovery, RedirectHasTwoAddresses) {
  const auto message = NdMessage::parse(kRedirect);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->target, kTwo);
  EXPECT_EQ(message->redirected, *Ipv6Address::parse("fd01::9"));
  EXPECT_EQ(message->target_link_layer, kHardware);
}

TEST(NeighbourDiscovery, DuplicateAddressDetectionHasNoSource) {
  const auto message = NdMessage::parse(kDuplicateAddressDetection);
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->source.is_unspecified());
  EXPECT_FALSE(message->source_link_layer);
}

TEST(NeighbourDiscovery, RefusesEveryTruncation) {
  for (const auto* golden : {&kSolicitation, &kAdvertisement, &kRouterAdvertisement, &kRedirect}) {
    expect_truncations_refused<NdMessage>(*golden);
  }
}

TEST(NeighbourDiscovery, RefusesMessagesThatAreInvalidByRfc4861) {
  auto forwarded = kSolicitation;
  forwarded[7] = 254;
  EXPECT_FALSE(NdMessage::parse(forwarded)) << "hop limit";
  auto damaged = kSolicitation;
  damaged[50] ^= 1;
  EXPECT_FALSE(NdMessage::parse(damaged)) << "checksum";
  EXPECT_FALSE(NdMessage::parse(with(kSolicitation, 1, 1))) << "code";
  EXPECT_FALSE(NdMessage::parse(with(kSolicitation, 8, 0xff))) << "multicast target";
  EXPECT_FALSE(NdMessage::parse(with(kSolicitation, 25, 0))) << "option without length";
  EXPECT_FALSE(NdMessage::parse(with(kSolicitation, 25, 4))) << "option longer than the message";
  EXPECT_FALSE(NdMessage::parse(with(kRedirect, 24, 0xff))) << "redirect of a group";
  auto to_all = kAdvertisement;
  const auto all_nodes = Ipv6Address::parse("ff02::1")->bytes();
  std::ranges::copy(all_nodes, to_all.begin() + 24);
  EXPECT_FALSE(NdMessage::parse(with(to_all, 0, 136))) << "solicited, to a group";
  EXPECT_TRUE(NdMessage::parse(with(to_all, 4, 0x20))) << "unsolicited";
  auto from_afar = kRouterAdvertisement;
  from_afar[8] = 0xfd;
  EXPECT_FALSE(NdMessage::parse(with(from_afar, 0, 134))) << "router without a link-local address";
}

TEST(NeighbourDiscovery, RefusesASourceLinkLayerAddressOfAnUnspecifiedSource) {
  auto packet = kSolicitation;
  std::fill_n(packet.begin() + 8, 16, std::uint8_t{0});
  EXPECT_FALSE(NdMessage::parse(with(packet, 0, 0x87)));
}

TEST(NeighbourDiscovery, IgnoresAddressesOfOtherLinks) {
  // The option of an Ethernet address has eight bytes.
  auto packet = kRouterSolicitation;
  packet[5] = 16;
  const auto option = from_hex("01 01 020000000001");
  packet.insert(packet.end(), option.begin(), option.end());
  const auto message = NdMessage::parse(with(packet, 0, 0x85));
  ASSERT_TRUE(message);
  EXPECT_FALSE(message->source_link_layer);
}

TEST(NeighbourDiscovery, IsRecognisedByItsType) {
  EXPECT_TRUE(is_discovery(kRouterSolicitation));
  EXPECT_FALSE(is_discovery(with(kRouterSolicitation, 0, 128)));
  EXPECT_FALSE(is_discovery(with(kRouterSolicitation, 0, 138)));
  EXPECT_FALSE(is_discovery(ConstBytes(kRouterSolicitation).first(40)));
}

TEST(NeighbourDiscovery, StripRemovesTheAddressAndKeepsTheRest) {
  auto packet = kRouterAdvertisement;
  packet.resize(strip_link_layer_options(packet));
  EXPECT_EQ(packet, kRouterAdvertisementStripped);
  EXPECT_TRUE(NdMessage::parse(packet));
}

TEST(NeighbourDiscovery, StripWithoutAnAddressChangesNothing) {
  auto packet = kRouterAdvertisementStripped;
  packet.resize(strip_link_layer_options(packet));
  EXPECT_EQ(packet, kRouterAdvertisementStripped);
}

TEST(NeighbourDiscovery, AppendIsTheInverseOfStrip) {
  auto packet = kRouterSolicitation;
  packet.resize(packet.size() + kLinkLayerOptionSize);
  const auto size = append_link_layer_option(packet, kRouterSolicitation.size(),
                                             LinkLayerOption::source, kHardware);
  EXPECT_EQ(size, packet.size());
  EXPECT_EQ(packet, kRouterSolicitationWithAddress);
  packet.resize(strip_link_layer_options(packet));
  EXPECT_EQ(packet, kRouterSolicitation);
}

TEST(NeighbourDiscovery, AppendsTheOptionOfEthernet) {
  auto packet = kRouterSolicitation;
  packet.resize(packet.size() + kEthernetOptionSize);
  const auto size = append_link_layer_option(packet, kRouterSolicitation.size(),
                                             LinkLayerOption::source, MacAddress(0x0200'0000'0001));
  EXPECT_EQ(size, packet.size());
  const auto option = from_hex("01 01 020000000001");
  EXPECT_TRUE(std::ranges::equal(ConstBytes(packet).last(kEthernetOptionSize), option));
  EXPECT_TRUE(NdMessage::parse(packet)) << "length and checksum are right";
  packet.resize(strip_link_layer_options(packet));
  EXPECT_EQ(packet, kRouterSolicitation);
}

}  // namespace
}  // namespace ipoib::wire
