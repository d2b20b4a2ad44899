#include "ethernet/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ipoib/bytes.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::ethernet::view_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::ArpOperation;
using wire::EthernetArp;
using wire::EthernetHeader;
using wire::EtherType;
using wire::NdMessage;
using wire::NdType;

constexpr Ipv4Address kOwn{0x0a2c0001};
constexpr Ipv4Address kPeer{0x0a2c0002};
constexpr Ipv4Address kFar{0x08080808};
const Ipv6Address kOwn6 = *Ipv6Address::parse("fe80::1");
const Ipv6Address kPeer6 = *Ipv6Address::parse("fe80::2");
constexpr MacAddress kHost{0x0200'0000'0001};
constexpr MacAddress kStranger{0x0200'0000'0077};

HwAddress hardware(std::uint32_t number) {
  return {.flags = 0, .qpn = Qpn(number), .gid = Gid(Gid::kLinkLocalPrefix, Guid(number))};
}

class ViewTest : public ::testing::Test {
 protected:
  ViewTest() {
    HostView host;
    host.mac = kHost;
    host.addresses = {{kOwn, 24}, {kOwn6, 64}};
    view.on_host_changed(host, now);
    view.on_neighbour(kPeer, hardware(2), false, now);
    view.on_neighbour(kPeer6, hardware(2), false, now);
    peer = view.mac_of(hardware(2));
    drain();
  }
  /// A frame as a TAP reads it.
  [[nodiscard]] Frame frame(const EthernetHeader& header, ConstBytes packet) {
    Frame made = pool.take();
    made.window(View::kHeadroom, packet.size());
    std::ranges::copy(packet, made.bytes().begin());
    header.emit(made.bytes().data() - EthernetHeader::kSize);
    return made;
  }
  [[nodiscard]] static EthernetHeader header(MacAddress to, EtherType type) {
    return {to, kHost, static_cast<std::uint16_t>(type)};
  }
  [[nodiscard]] static std::vector<std::uint8_t> ipv4_packet(Ipv4Address from, Ipv4Address to) {
    std::vector<std::uint8_t> packet(28);
    packet[0] = 0x45;
    packet[3] = 28;
    std::ranges::copy(from.bytes(), packet.begin() + 12);
    std::ranges::copy(to.bytes(), packet.begin() + 16);
    return packet;
  }
  [[nodiscard]] static std::vector<std::uint8_t> bytes_of(const EthernetArp& message) {
    std::vector<std::uint8_t> bytes(EthernetArp::kSize);
    message.emit(bytes);
    return bytes;
  }
  [[nodiscard]] static std::vector<std::uint8_t> bytes_of(const NdMessage& message) {
    std::vector<std::uint8_t> bytes(NdMessage::kMaxEmitted);
    bytes.resize(message.emit(bytes));
    return bytes;
  }
  [[nodiscard]] static NdMessage solicitation(const Ipv6Address& from, const Ipv6Address& target) {
    NdMessage message;
    message.source = from;
    message.destination = target.solicited_node();
    message.target = target;
    return message;
  }
  [[nodiscard]] static NdMessage advertisement(const Ipv6Address& of, const Ipv6Address& to) {
    NdMessage message;
    message.type = NdType::neighbour_advertisement;
    message.source = message.target = of;
    message.destination = to;
    message.is_solicited = message.overrides = message.is_router = true;
    return message;
  }
  /// A router advertisement of the peer, with the option of an MTU.
  [[nodiscard]] static std::vector<std::uint8_t> router_advertisement() {
    NdMessage message = advertisement(kPeer6, kOwn6);
    message.target = *Ipv6Address::parse("::501:0:0:500");  // whose end is that option
    auto bytes = bytes_of(message);
    retype(bytes, NdType::router_advertisement, message);
    return bytes;
  }
  /// A redirect of a router (RFC 4861, 4.5) to the peer, which is the destination itself.
  [[nodiscard]] static std::vector<std::uint8_t> redirect() {
    const NdMessage message = advertisement(*Ipv6Address::parse("fe80::1"), kOwn6);
    auto bytes = bytes_of(message);
    bytes.resize(kIcmp + 8);
    for (int i = 0; i < 2; ++i) {
      bytes.insert(bytes.end(), kPeer6.bytes().begin(), kPeer6.bytes().end());
    }
    store_be(&bytes[4], static_cast<std::uint16_t>(bytes.size() - kIcmp));
    retype(bytes, NdType::redirect, message);
    return bytes;
  }
  static constexpr std::size_t kIcmp = wire::Ipv6Header::kSize;
  static void retype(std::vector<std::uint8_t>& bytes, NdType type, const NdMessage& message) {
    bytes[kIcmp] = static_cast<std::uint8_t>(type);
    store_be(&bytes[kIcmp + 2], std::uint16_t{0});
    wire::InternetChecksum sum;
    sum.add_pseudo_header(message.source, message.destination, wire::kIcmpv6,
                          static_cast<std::uint32_t>(bytes.size() - kIcmp));
    store_be(&bytes[kIcmp + 2], sum.add(ConstBytes(bytes).subspan(kIcmp)).value());
  }
  [[nodiscard]] static EthernetArp request(Ipv4Address target, Ipv4Address from = kOwn) {
    return {.operation = ArpOperation::request,
            .sender_hardware = kHost,
            .sender_protocol = from,
            .target_hardware = {},
            .target_protocol = target};
  }
  /// Passes a frame of the host; returns the next hop if it goes on to the link.
  void from_host(const EthernetHeader& header, ConstBytes packet) {
    batch.clear();
    batch.push_back(frame(header, packet));
    view.from_host(batch, hops, now);
    EXPECT_EQ(batch.size(), hops.size());
  }
  void ask(const EthernetArp& message) {
    from_host(header(kBroadcastMac, EtherType::arp), bytes_of(message));
    EXPECT_THAT(batch, IsEmpty());
  }
  /// Passes a packet of the link to the host.
  void to_host(ConstBytes packet) {
    written.push_back(frame({}, packet));
    view.to_host(written, now);
  }
  /// Takes the answers.
  void drain() {
    written.clear();
    view.to_host(written, now);
  }
  [[nodiscard]] static EthernetHeader header_of(const Frame& frame) {
    return EthernetHeader::parse(frame.bytes().data() - EthernetHeader::kSize);
  }

  TimePoint now{1h};
  FramePool pool{64, 256};
  View view{{.neighbours = 64, .stations = 16}, HashKey{1, 2}, pool};
  MacAddress peer;
  std::vector<Frame> batch;
  std::vector<std::optional<IpAddress>> hops;
  std::vector<Frame> written;
};

// --- Host to fabric ------------------------------------------------------------------------------

TEST_F(ViewTest, TheMacOfTheDestinationMakesItTheNextHop) {
  for (int i = 0; i < 2; ++i) {  // the second time from what it remembers
    from_host(header(peer, EtherType::ipv4), ipv4_packet(kOwn, kPeer));
    EXPECT_THAT(hops, ElementsAre(IpAddress(kPeer)));
  }
  EXPECT_EQ(batch.at(0).size(), 28U) << "the packet, without the Ethernet header";
}

TEST_F(ViewTest, TheMacOfAGatewayMakesThatTheNextHop) {
  from_host(header(peer, EtherType::ipv4), ipv4_packet(kOwn, kFar));
  // Any of its addresses, of either family, leads to it.
  EXPECT_THAT(hops, ElementsAre(IpAddress(kPeer6)));
}

TEST_F(ViewTest, ANeighbourThatIsReachedThroughAnotherOneIs) {
  view.on_neighbour(kFar, hardware(3), false, now);
  from_host(header(peer, EtherType::ipv4), ipv4_packet(kOwn, kFar));
  EXPECT_THAT(hops, ElementsAre(IpAddress(kPeer6)));
  from_host(header(view.mac_of(hardware(3)), EtherType::ipv4), ipv4_packet(kOwn, kFar));
  EXPECT_THAT(hops, ElementsAre(IpAddress(kFar)));
}

TEST_F(ViewTest, AMacFromBeforeARestartLeavesTheChoiceToTheLink) {
  from_host(header(view.mac_of(hardware(9)), EtherType::ipv4), ipv4_packet(kOwn, kFar));
  EXPECT_THAT(hops, ElementsAre(std::nullopt));
}

TEST_F(ViewTest, ANeighbourThatHasMovedHasNoOldHop) {
  from_host(header(peer, EtherType::ipv4), ipv4_packet(kOwn, kPeer));
  view.on_neighbour(kPeer, hardware(3), false, now);
  from_host(header(view.mac_of(hardware(3)), EtherType::ipv4), ipv4_packet(kOwn, kPeer));
  EXPECT_THAT(hops, ElementsAre(IpAddress(kPeer)));
}

TEST_F(ViewTest, MulticastAndBroadcastGoOn) {
  from_host(header(kBroadcastMac, EtherType::ipv4), ipv4_packet(kOwn, Ipv4Address(0x0a2c00ff)));
  EXPECT_THAT(hops, ElementsAre(IpAddress(Ipv4Address(0xffffffff)))) << "of whatever subnet";
  from_host(header(wire::multicast_mac(Ipv4Address(0xe00000fb)), EtherType::ipv4),
            ipv4_packet(kOwn, Ipv4Address(0xe00000fb)));
  EXPECT_THAT(hops, ElementsAre(std::nullopt));
}

TEST_F(ViewTest, FramesForOthersBehindABridgeAreDropped) {
  from_host(header(kStranger, EtherType::ipv4), ipv4_packet(kOwn, kFar));
  EXPECT_THAT(batch, IsEmpty());
  EXPECT_EQ(view.counters().drop_destination, 1U);
}

TEST_F(ViewTest, OtherFramesAreDroppedAndCountedByReason) {
  struct Case {
    MacAddress destination;
    std::uint16_t type;
    std::uint64_t Counters::*counter;
  };
  constexpr MacAddress kLldpGroup{0x0180'c200'000e};
  constexpr std::uint16_t kLength = 38;  // instead of a type
  for (const auto& [destination, type, counter] : {
           Case{wire::kStpGroup, kLength, &Counters::drop_stp},
           Case{kLldpGroup, 0x88cc, &Counters::drop_lldp},
           Case{kBroadcastMac, 0x8100, &Counters::drop_vlan},
           Case{kBroadcastMac, 0x88a8, &Counters::drop_vlan},
           Case{kBroadcastMac, kLength, &Counters::drop_type},
           Case{kLldpGroup, 0x8809, &Counters::drop_type},
       }) {
    Counters expected = view.counters();
    ++(expected.*counter);
    from_host({destination, kHost, type}, std::vector<std::uint8_t>(46));
    EXPECT_THAT(batch, IsEmpty());
    EXPECT_EQ(view.counters(), expected) << destination.to_string() << std::hex << " " << type;
  }
}

TEST_F(ViewTest, ABatchKeepsItsOrderAndItsHops) {
  batch.push_back(frame(header(peer, EtherType::ipv4), ipv4_packet(kOwn, kPeer)));
  batch.push_back(frame(header(kBroadcastMac, EtherType::arp), bytes_of(request(kFar))));
  batch.push_back(frame(header(peer, EtherType::ipv4), ipv4_packet(kOwn, kFar)));
  view.from_host(batch, hops, now);
  ASSERT_EQ(batch.size(), 2U);
  EXPECT_THAT(hops, ElementsAre(IpAddress(kPeer), IpAddress(kPeer6)));
  EXPECT_EQ(std::as_const(batch[1]).bytes()[16], kFar.bytes()[0]);
}

TEST_F(ViewTest, ShortPacketsAreLeftToTheLink) {
  from_host(header(peer, EtherType::ipv4), ConstBytes());
  EXPECT_THAT(hops, ElementsAre(std::nullopt));
  from_host(header(peer, EtherType::ipv6), std::vector<std::uint8_t>(20, 0x60));
  EXPECT_THAT(hops, ElementsAre(std::nullopt));
}

// --- ARP -----------------------------------------------------------------------------------------

TEST_F(ViewTest, AnArpRequestIsAnsweredWhenTheNeighbourIsKnown) {
  constexpr Ipv4Address kNew{0x0a2c0003};
  ask(request(kNew));
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kNew)));
  drain();
  EXPECT_THAT(written, IsEmpty());
  view.on_neighbour(kNew, hardware(3), false, now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  const MacAddress mac = view.mac_of(hardware(3));
  EXPECT_EQ(header_of(written[0]),
            (EthernetHeader{kHost, mac, static_cast<std::uint16_t>(EtherType::arp)}));
  EXPECT_EQ(EthernetArp::parse(std::as_const(written[0]).bytes()),
            (EthernetArp{ArpOperation::reply, mac, kNew, kHost, kOwn}));
  view.on_neighbour(kNew, hardware(3), false, now);
  drain();
  EXPECT_THAT(written, IsEmpty()) << "once";
}

TEST_F(ViewTest, ARequestForAnUnspecifiedAddressHasNoAnswer) {
  ask(request(Ipv4Address(0)));
  view.on_neighbour(Ipv4Address(0), hardware(3), false, now);
  drain();
  EXPECT_THAT(written, IsEmpty());
}

TEST_F(ViewTest, AnArpProbeIsAnswered) {
  ask(request(kPeer, Ipv4Address(0)));
  view.on_neighbour(kPeer, hardware(2), false, now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  const auto reply = EthernetArp::parse(std::as_const(written[0]).bytes());
  EXPECT_EQ(reply->sender_protocol, kPeer);
  EXPECT_EQ(reply->target_protocol, Ipv4Address(0));
}

TEST_F(ViewTest, AnnouncementsRepliesAndRequestsForTheHostItselfAskForNothing) {
  ask(request(kOwn, kOwn));
  ask(request(kOwn, Ipv4Address(0)));
  EthernetArp reply = request(kPeer);
  reply.operation = ArpOperation::reply;
  ask(reply);
  EXPECT_THAT(view.wanted(), IsEmpty());
}

TEST_F(ViewTest, MalformedArpIsDropped) {
  from_host(header(kBroadcastMac, EtherType::arp), std::vector<std::uint8_t>(28));
  EXPECT_EQ(view.counters().drop_malformed_arp, 1U);
}

TEST_F(ViewTest, RequestsAreLimited) {
  constexpr std::uint32_t kOfOne = Requests::kMax / 2;
  for (std::uint32_t i = 0; i < kOfOne + 3; ++i) ask(request(Ipv4Address(0x0b000000 + i)));
  EXPECT_EQ(view.wanted().size(), kOfOne);
  EXPECT_EQ(view.counters().drop_request_limit, 3U);
}

TEST_F(ViewTest, ANeighbourThatHasMovedIsAnnounced) {
  view.on_neighbour(kPeer, hardware(3), false, now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  const MacAddress mac = view.mac_of(hardware(3));
  EXPECT_EQ(header_of(written[0]).destination, kBroadcastMac);
  EXPECT_EQ(EthernetArp::parse(std::as_const(written[0]).bytes()),
            (EthernetArp{ArpOperation::request, mac, kPeer, {}, kPeer}));
  EXPECT_EQ(view.counters().announcements, 1U);
}

TEST_F(ViewTest, RemembersMoreNeighboursThanStations) {
  constexpr std::uint32_t kNeighbours = 40;
  for (std::uint32_t i = 1; i <= kNeighbours; ++i) {
    view.on_neighbour(Ipv4Address(0x0a2c1000 + i), hardware(100 + i), false, now);
  }
  from_host(header(view.mac_of(hardware(101)), EtherType::ipv4), ipv4_packet(kOwn, kFar));
  EXPECT_THAT(hops, ElementsAre(IpAddress(Ipv4Address(0x0a2c1001))));
}

TEST_F(ViewTest, WithoutBuffersThereIsNoAnswer) {
  ask(request(kPeer));
  batch.clear();
  std::vector<Frame> taken;
  while (pool.available() > 0) taken.push_back(pool.take());
  view.on_neighbour(kPeer, hardware(2), false, now);
  drain();
  EXPECT_THAT(written, IsEmpty());
  EXPECT_EQ(view.counters().drop_no_frame, 1U);
}

// --- Neighbour Discovery -------------------------------------------------------------------------

TEST_F(ViewTest, ASolicitationIsAnsweredByTheNeighboursAdvertisement) {
  from_host(header(wire::multicast_mac(kPeer6.solicited_node()), EtherType::ipv6),
            bytes_of(solicitation(kOwn6, kPeer6)));
  EXPECT_THAT(batch, IsEmpty());
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kPeer6)));
  view.on_neighbour(kPeer6, hardware(2), false, now);
  to_host(bytes_of(advertisement(kPeer6, kOwn6)));
  ASSERT_EQ(written.size(), 1U) << "the advertisement itself";
  EXPECT_EQ(header_of(written[0]).destination, kHost);
  EXPECT_EQ(header_of(written[0]).source, peer);
  const ConstBytes packet = std::as_const(written[0]).bytes();
  EXPECT_TRUE(NdMessage::parse(packet)) << "checksum and length are right";
  const auto option = packet.last(wire::kEthernetOptionSize);
  EXPECT_EQ(option[0], 2) << "target link-layer address";
  EXPECT_TRUE(std::ranges::equal(option.last(6), peer.bytes()));
}

TEST_F(ViewTest, AnotherAskerGetsACopyOfTheAdvertisement) {
  const Ipv6Address asker = *Ipv6Address::parse("fe80::77");
  EthernetHeader from = header(wire::multicast_mac(kPeer6.solicited_node()), EtherType::ipv6);
  from.source = kStranger;
  from_host(from, bytes_of(solicitation(asker, kPeer6)));
  to_host(bytes_of(advertisement(kPeer6, kOwn6)));
  ASSERT_EQ(written.size(), 1U) << "the host has not asked";
  EXPECT_EQ(header_of(written[0]).destination, kStranger);
  const auto copy = NdMessage::parse(std::as_const(written[0]).bytes());
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->destination, asker);
  EXPECT_TRUE(copy->is_router && copy->is_solicited && copy->overrides);
}

TEST_F(ViewTest, APermanentNeighbourNeedNotAnswer) {
  to_host(bytes_of(advertisement(kPeer6, kOwn6)));  // which shows that it is a router
  written.clear();
  from_host(header(peer, EtherType::ipv6), bytes_of(solicitation(kOwn6, kPeer6)));
  view.on_neighbour(kPeer6, hardware(2), true, now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_TRUE(NdMessage::parse(std::as_const(written[0]).bytes())->is_router);
}

TEST_F(ViewTest, ARouterAdvertisementShowsThatItsNeighbourIsARouter) {
  for (const bool is_router : {false, true}) {
    if (is_router) to_host(router_advertisement());
    written.clear();
    from_host(header(peer, EtherType::ipv6), bytes_of(solicitation(kOwn6, kPeer6)));
    view.on_neighbour(kPeer6, hardware(2), true, now);
    drain();
    ASSERT_EQ(written.size(), 1U);
    EXPECT_EQ(NdMessage::parse(std::as_const(written[0]).bytes())->is_router, is_router);
  }
}

TEST_F(ViewTest, DuplicateAddressDetectionGoesOn) {
  NdMessage message = solicitation(Ipv6Address(), kPeer6);
  from_host(header(wire::multicast_mac(message.destination), EtherType::ipv6), bytes_of(message));
  EXPECT_EQ(batch.size(), 1U);
  EXPECT_THAT(view.wanted(), IsEmpty());
}

TEST_F(ViewTest, ASolicitationOfTheFabricShowsTheSendersMac) {
  to_host(bytes_of(solicitation(kPeer6, kOwn6)));
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(header_of(written[0]).destination, wire::multicast_mac(kOwn6.solicited_node()));
  const auto option = std::as_const(written[0]).bytes().last(wire::kEthernetOptionSize);
  EXPECT_EQ(option[0], 1) << "source link-layer address";
  EXPECT_TRUE(std::ranges::equal(option.last(6), peer.bytes()));
}

TEST_F(ViewTest, ARedirectShowsTheMacOfItsTarget) {
  to_host(redirect());
  ASSERT_EQ(written.size(), 1U);
  const auto option = std::as_const(written[0]).bytes().last(wire::kEthernetOptionSize);
  EXPECT_EQ(option[0], 2) << "target link-layer address";
  EXPECT_TRUE(std::ranges::equal(option.last(6), peer.bytes()));
}

TEST_F(ViewTest, AMessageOfAnUnknownNodeIsLeftAsItIs) {
  const auto packet = bytes_of(solicitation(*Ipv6Address::parse("fe80::99"), kOwn6));
  to_host(packet);
  ASSERT_EQ(written.size(), 1U);
  EXPECT_TRUE(std::ranges::equal(std::as_const(written[0]).bytes(), packet));
}

// --- Fabric to host ------------------------------------------------------------------------------

TEST_F(ViewTest, PacketsOfANeighbourComeFromItsMac) {
  to_host(ipv4_packet(kPeer, kOwn));
  EXPECT_EQ(header_of(written.at(0)),
            (EthernetHeader{kHost, peer, static_cast<std::uint16_t>(EtherType::ipv4)}));
}

TEST_F(ViewTest, ForwardedPacketsComeFromTheMacOfOthers) {
  to_host(ipv4_packet(kFar, kOwn));
  EXPECT_EQ(header_of(written.at(0)).source, NeighbourMacs::kOfOthers);
}

TEST_F(ViewTest, GroupsAndBroadcastsHaveTheirMacs) {
  for (const auto& [to, mac] : std::initializer_list<std::pair<Ipv4Address, MacAddress>>{
           {Ipv4Address(0xffffffff), kBroadcastMac},
           {Ipv4Address(0x0a2c00ff), kBroadcastMac},
           {Ipv4Address(0xe00000fb), MacAddress(0x0100'5e00'00fb)},
           {Ipv4Address(0x0a2d00ff), kHost}}) {
    written.clear();
    to_host(ipv4_packet(kPeer, to));
    EXPECT_EQ(header_of(written.at(0)).destination, mac) << to.to_string();
  }
}

TEST_F(ViewTest, FollowsTheMacOfTheInterface) {
  to_host(ipv4_packet(kPeer, kOwn));
  HostView host;
  host.mac = kStranger;
  view.on_host_changed(host, now);
  to_host(ipv4_packet(kPeer, kOwn));
  EXPECT_EQ(header_of(written.at(1)).destination, kStranger);
}

}  // namespace
}  // namespace ipoib::ethernet::view_test
