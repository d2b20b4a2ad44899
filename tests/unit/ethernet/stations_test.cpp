// Stations behind the TAP of a view.
#include "ethernet/stations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ethernet/view.hpp"
#include "wire/group_membership.hpp"

namespace ipoib::ethernet::stations_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Arp;
using wire::ArpOperation;
using wire::EthernetArp;
using wire::EthernetHeader;
using wire::EtherType;
using wire::NdMessage;
using wire::NdType;

constexpr MacAddress kHostMac{0x0200'0000'0001};
constexpr MacAddress kMac{0x0200'0000'0011};
constexpr MacAddress kOtherMac{0x0200'0000'0022};
constexpr Ipv4Address kHost{0x0a2c0001};
constexpr Ipv4Address kElsewhere{0xc0a80001};  ///< of another interface of the host
constexpr Ipv4Address kStation{0x0a2c0011};
constexpr Ipv4Address kPeer{0x0a2c0002};
const Ipv6Address kStation6 = *Ipv6Address::parse("fd44::11");
const Ipv6Address kPeer6 = *Ipv6Address::parse("fd44::2");
const Ipv6Address kAll = *Ipv6Address::parse("ff02::1");

HwAddress hardware(std::uint32_t number) {
  return {.flags = 0, .qpn = Qpn(number), .gid = Gid(Gid::kLinkLocalPrefix, Guid(number))};
}

class StationsTest : public ::testing::Test {
 protected:
  StationsTest() {
    HostView host;
    host.mac = kHostMac;
    host.addresses = {{kHost, 24}};
    host.local = {{kHost, 32}, {kElsewhere, 32}};
    view.on_host_changed(host, now);
    drain();
  }
  void send(MacAddress from, MacAddress to, EtherType type, ConstBytes packet) {
    Frame made = pool.take();
    made.window(View::kHeadroom, packet.size());
    std::ranges::copy(packet, made.bytes().begin());
    EthernetHeader{to, from, static_cast<std::uint16_t>(type)}.emit(made.bytes().data() -
                                                                    EthernetHeader::kSize);
    batch.clear();
    batch.push_back(std::move(made));
    view.from_host(batch, hops, now);
  }
  /// Returns whether it goes on to the link.
  bool send_ip(MacAddress from, Ipv4Address source, Ipv4Address to, MacAddress mac) {
    std::vector<std::uint8_t> packet(28);
    packet[0] = 0x45;
    packet[3] = 28;
    std::ranges::copy(source.bytes(), packet.begin() + 12);
    std::ranges::copy(to.bytes(), packet.begin() + 16);
    send(from, mac, EtherType::ipv4, packet);
    return !batch.empty();
  }
  bool send_ip(MacAddress from, Ipv4Address source) {
    return send_ip(from, source, kPeer, view.mac_of(hardware(2)));
  }
  void send_arp(MacAddress from, ArpOperation operation, Ipv4Address sender, Ipv4Address target,
                MacAddress to = kBroadcastMac) {
    std::vector<std::uint8_t> bytes(EthernetArp::kSize);
    EthernetArp{operation, from, sender, {}, target}.emit(bytes);
    send(from, to, EtherType::arp, bytes);
  }
  void announce(MacAddress from = kMac, Ipv4Address address = kStation) {
    send_arp(from, ArpOperation::request, address, address);
  }
  bool send_nd(MacAddress from, const NdMessage& message) {
    std::vector<std::uint8_t> bytes(NdMessage::kMaxEmitted);
    bytes.resize(message.emit(bytes));
    send(from, wire::multicast_mac(kAll), EtherType::ipv6, bytes);
    return !batch.empty();
  }
  [[nodiscard]] static NdMessage advertisement(const Ipv6Address& of, const Ipv6Address& to) {
    NdMessage message;
    message.type = NdType::neighbour_advertisement;
    message.source = message.target = of;
    message.destination = to;
    message.is_router = true;
    return message;
  }
  void pass(Duration time) {
    const TimePoint end = now + time;
    while (view.next_deadline() <= end) {
      now = std::max(now, view.next_deadline());
      view.tick(now);
    }
    now = end;
  }
  /// A packet of the peer.
  void receive_ip(Ipv4Address to) {
    Frame packet = pool.take();
    packet.window(View::kHeadroom, 28);
    std::ranges::fill(packet.bytes(), std::uint8_t{0});
    packet.bytes()[0] = 0x45;
    std::ranges::copy(kPeer.bytes(), packet.bytes().begin() + 12);
    std::ranges::copy(to.bytes(), packet.bytes().begin() + 16);
    written.clear();
    written.push_back(std::move(packet));
    view.to_host(written, now);
  }
  /// The station has its address.
  void serve() {
    announce();
    pass(1s);
    drain();
    ASSERT_TRUE(stations().table().find(kStation)->is_served());
    stations().services().clear();
    stations().events().clear();
  }
  /// Takes out what the view sends.
  void drain() {
    written.clear();
    view.to_host(written, now);
    view.wanted().clear();
  }
  [[nodiscard]] Stations& stations() { return *view.stations(); }
  [[nodiscard]] const StationCounters& count() { return stations().table().counters(); }
  [[nodiscard]] static EthernetHeader header_of(const Frame& frame) {
    return EthernetHeader::parse(frame.bytes().data() - EthernetHeader::kSize);
  }
  [[nodiscard]] static Arp request_of_peer(Ipv4Address target) {
    return {.operation = ArpOperation::request,
            .sender_hardware = hardware(2),
            .sender_protocol = kPeer,
            .target_hardware = {},
            .target_protocol = target};
  }

  TimePoint now{1h};
  FramePool pool{1024, 2048};
  View view{{.neighbours = 64, .stations = 8}, HashKey{1, 2}, pool};
  std::vector<Frame> batch;
  std::vector<std::optional<IpAddress>> hops;
  std::vector<Frame> written;
};

// --- Learning ------------------------------------------------------------------------------------

TEST_F(StationsTest, AnAnnouncedAddressIsServedAfterTheFabricWasAsked) {
  announce();
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kStation)));
  EXPECT_THAT(stations().services(), IsEmpty());
  pass(1s);
  ASSERT_EQ(stations().services().size(), 1U);
  EXPECT_EQ(stations().services()[0].address, IpAddress(kStation));
  EXPECT_TRUE(stations().services()[0].on);
}

TEST_F(StationsTest, AServedAddressIsAnnouncedAgainWithItsStation) {
  serve();
  announce();
  ASSERT_EQ(stations().services().size(), 1U);
  EXPECT_EQ(stations().services()[0].address, IpAddress(kStation));
  EXPECT_TRUE(stations().services()[0].on);
  for (std::uint32_t i = 1; i < StationBudget::kRequests; ++i) announce();
  EXPECT_EQ(stations().services().size(), StationBudget::kRequests / 4);
  EXPECT_EQ(count().drop_budget, StationBudget::kRequests - StationBudget::kRequests / 4);
}

TEST_F(StationsTest, AnAddressThatAHostOfTheFabricHasIsRefused) {
  announce();
  for (int i = 0; i < 2; ++i) {
    view.on_neighbour(kStation, hardware(2), false, now);
    pass(100ms);
  }
  pass(1s);
  EXPECT_THAT(stations().services(), IsEmpty());
  ASSERT_EQ(stations().events().size(), 1U);
  EXPECT_EQ(stations().events()[0].kind, StationEvent::Kind::duplicate);
  EXPECT_FALSE(send_ip(kMac, kStation)) << "its packets are dropped";
  EXPECT_EQ(count().drop_address, 1U);
}

TEST_F(StationsTest, ASourceAddressIsServedIfItsStationAnswers) {
  EXPECT_TRUE(send_ip(kMac, kStation));
  drain();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(header_of(written[0]).destination, kMac);
  EXPECT_EQ(EthernetArp::parse(std::as_const(written[0]).bytes()),
            (EthernetArp{ArpOperation::request, NeighbourMacs::kOfOthers, {}, {}, kStation}));
  send_arp(kMac, ArpOperation::reply, kStation, Ipv4Address(), NeighbourMacs::kOfOthers);
  pass(1s);
  EXPECT_EQ(stations().services().size(), 1U);
}

TEST_F(StationsTest, ASourceAddressOfARouterIsNotServed) {
  EXPECT_TRUE(send_ip(kMac, Ipv4Address(0x08080808)));
  pass(4s);
  EXPECT_THAT(stations().services(), IsEmpty());
  EXPECT_TRUE(send_ip(kMac, Ipv4Address(0x08080808)));
  EXPECT_EQ(stations().mac_of(Ipv4Address(0x08080808)), kMac) << "packets to it go to the router";
}

TEST_F(StationsTest, AnAdvertisementIsAClaimAndPassesOnceItIsServed) {
  EXPECT_FALSE(send_nd(kMac, advertisement(kStation6, kAll))) << "would claim it on the fabric";
  pass(1s);
  ASSERT_EQ(stations().services().size(), 1U);
  EXPECT_TRUE(stations().services()[0].is_router);
  EXPECT_TRUE(send_nd(kMac, advertisement(kStation6, kPeer6)));
}

/// The link tells the fabric (RFC 4861, 7.2.8): it answers for the address.
TEST_F(StationsTest, AnAdvertisementShowsWhetherItsStationIsARouter) {
  struct Case {
    NdType type;
    bool flag;  ///< of an advertisement of a neighbour
    bool is_router;
  };
  NdMessage message = advertisement(kStation6, kAll);
  const auto receive = [&](NdType type, bool flag) {
    message.type = type;
    message.is_router = flag;
    return stations().receive_discovery({wire::multicast_mac(kAll), kMac}, message, now);
  };
  (void)receive(NdType::router_solicitation, false);
  pass(1s);
  auto& services = stations().services();
  ASSERT_EQ(services.size(), 1U);
  EXPECT_FALSE(services[0].is_router);
  for (const auto& [type, flag, is_router] : {Case{NdType::router_advertisement, false, true},
                                              Case{NdType::router_solicitation, false, true},
                                              Case{NdType::neighbour_advertisement, false, false},
                                              Case{NdType::neighbour_advertisement, true, true}}) {
    const bool changes = services.back().is_router != is_router;
    const std::size_t before = services.size();
    EXPECT_TRUE(receive(type, flag));
    EXPECT_EQ(services.size(), before + (changes ? 1 : 0));
    EXPECT_EQ(services.back().is_router, is_router);
    EXPECT_TRUE(services.back().on);
  }
}

TEST_F(StationsTest, DiscoveryWithoutAnAddressPasses) {
  NdMessage message;
  for (const NdType type : {NdType::router_solicitation, NdType::redirect}) {
    message.type = type;
    EXPECT_TRUE(stations().receive_discovery({wire::multicast_mac(kAll), kMac}, message, now));
  }
  EXPECT_EQ(count().drop_address, 0U);
}

TEST_F(StationsTest, SolicitationsOfAStationAreLimited) {
  NdMessage message;
  message.type = NdType::neighbour_solicitation;
  message.target = kPeer6;
  std::uint32_t passed = 0;
  for (std::uint32_t i = 0; i < StationBudget::kRequests; ++i) {
    passed += stations().receive_discovery({wire::multicast_mac(kAll), kMac}, message, now) ? 1 : 0;
  }
  EXPECT_EQ(passed, StationBudget::kRequests / 4);
  EXPECT_EQ(count().drop_budget, StationBudget::kRequests - passed);
}

TEST_F(StationsTest, ProbesByNeighbourDiscoveryEndInTheView) {
  EXPECT_FALSE(send_nd(kMac, advertisement(kStation6, kAll)));
  pass(5min + 1s);
  drain();
  ASSERT_FALSE(written.empty());
  const auto probe = NdMessage::parse(std::as_const(written.back()).bytes());
  ASSERT_TRUE(probe);
  EXPECT_EQ(probe->target, kStation6);
  EXPECT_EQ(header_of(written.back()).destination, kMac);
  EXPECT_FALSE(send_nd(kMac, advertisement(kStation6, probe->source)));
  EXPECT_STREQ(name(stations().table().find(kStation6)->state_name()), "reachable");
}

TEST_F(StationsTest, AStationThatChecksItsAddressIsNotAskedForIt) {
  serve();
  pass(4min);
  send_arp(kMac, ArpOperation::request, Ipv4Address(), kStation);
  drain();
  pass(4min);
  drain();
  EXPECT_TRUE(std::ranges::none_of(
      written, [](const Frame& frame) { return is_type(header_of(frame), EtherType::arp); }));
  pass(2min);
  drain();
  EXPECT_TRUE(std::ranges::any_of(
      written, [](const Frame& frame) { return is_type(header_of(frame), EtherType::arp); }));
}

TEST_F(StationsTest, ADuplicateCheckOfAStationGoesToTheFabric) {
  send_arp(kMac, ArpOperation::request, Ipv4Address(), kStation);
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kStation)));
  view.on_neighbour(kStation, hardware(2), false, now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(header_of(written[0]).destination, kMac);
}

// --- Requests and packets of the fabric ----------------------------------------------------------

TEST_F(StationsTest, ARequestIsPassedOnAndAnsweredWhenTheStationAnswers) {
  serve();
  view.on_request(request_of_peer(kStation), now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  const MacAddress peer = view.mac_of(hardware(2));
  EXPECT_EQ(header_of(written[0]).destination, kMac);
  EXPECT_EQ(EthernetArp::parse(std::as_const(written[0]).bytes()),
            (EthernetArp{ArpOperation::request, peer, kPeer, {}, kStation}));
  EXPECT_THAT(stations().replies(), IsEmpty()) << "not from the cache";
  send_arp(kMac, ArpOperation::reply, kStation, kPeer, peer);
  EXPECT_THAT(stations().replies(), ElementsAre(request_of_peer(kStation)));
  stations().replies().clear();
  send_arp(kMac, ArpOperation::reply, kStation, kPeer, peer);
  EXPECT_THAT(stations().replies(), IsEmpty()) << "once";
}

/// An ARP probe (RFC 5227, 2.1) of a host without an address, or duplicate address detection.
TEST_F(StationsTest, AnUnspecifiedSenderOwnsNothing) {
  view.on_neighbour(kPeer, hardware(2), false, now);
  serve();
  Arp probe = request_of_peer(kStation);
  probe.sender_protocol = {};
  view.on_request(probe, now);
  constexpr Ipv4Address kBehindPeer{0x0a2d0001};
  EXPECT_TRUE(send_ip(kMac, kStation, kBehindPeer, view.mac_of(hardware(2))));
  EXPECT_THAT(hops, ElementsAre(IpAddress(kPeer))) << "the address that it is known with";
  probe.sender_hardware = hardware(3);
  view.on_request(probe, now);
  EXPECT_TRUE(send_ip(kMac, kStation, kBehindPeer, view.mac_of(hardware(3))));
  EXPECT_THAT(hops, ElementsAre(std::nullopt)) << "the link knows better";
  view.on_neighbour(Ipv6Address(), hardware(4), false, now);
  EXPECT_TRUE(send_ip(kMac, kStation, kBehindPeer, view.mac_of(hardware(4))));
  EXPECT_THAT(hops, ElementsAre(std::nullopt));
}

TEST_F(StationsTest, ASilentStationIsFoundByARequest) {
  view.on_request(request_of_peer(kStation), now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(header_of(written[0]).destination, kBroadcastMac);
  send_arp(kMac, ArpOperation::reply, kStation, kPeer, view.mac_of(hardware(2)));
  EXPECT_THAT(stations().replies(), IsEmpty()) << "the fabric is asked first";
  pass(1s);
  EXPECT_EQ(stations().services().size(), 1U);
  EXPECT_EQ(stations().replies().size(), 1U);
}

TEST_F(StationsTest, RequestsAreLimited) {
  constexpr std::uint32_t kOfOne = FabricRequests::kMax / 2;
  for (std::uint32_t i = 0; i < kOfOne + 3; ++i) {
    view.on_request(request_of_peer(Ipv4Address(0x0b000000 + i)), now);
  }
  EXPECT_EQ(count().request_limit, 3U);
  Arp other = request_of_peer(kStation);
  other.sender_hardware = hardware(3);
  view.on_request(other, now);
  EXPECT_EQ(count().request_limit, 3U) << "another host has room";
  now += FabricRequests::kPatience;
  view.on_request(request_of_peer(kStation), now);
  EXPECT_EQ(count().request_limit, 3U);
}

TEST_F(StationsTest, PacketsGoToTheStationThatHasTheAddress) {
  const auto mac_for = [&](Ipv4Address to) {
    receive_ip(to);
    return header_of(written.at(0)).destination;
  };
  EXPECT_EQ(mac_for(kStation), kHostMac);
  serve();
  EXPECT_EQ(mac_for(kStation), kMac);
  EXPECT_EQ(mac_for(kHost), kHostMac);
  announce(kOtherMac);
  EXPECT_EQ(mac_for(kStation), kMac) << "as long as it is contested";
  pass(1s);
  drain();
  EXPECT_EQ(mac_for(kStation), kOtherMac);
}

TEST_F(StationsTest, TheFabricIsAskedForAStationThatNoLongerAnswers) {
  serve();
  for (int i = 0; i < 100 && stations().searches().empty(); ++i) {
    receive_ip(kStation);
    pass(10ms);
  }
  EXPECT_THAT(stations().searches(), ElementsAre(IpAddress(kStation)));
  EXPECT_EQ(stations().mac_of(kStation), kMac) << "it may only sleep";
  EXPECT_THAT(stations().services(), IsEmpty());
}

TEST_F(StationsTest, AStationThatAnswersIsNotSearched) {
  serve();
  for (int i = 0; i < 1000; ++i) {
    receive_ip(kStation);
    ASSERT_EQ(written.size(), 1U) << "nor asked";
    pass(10ms);
    if (i % 20 == 0) (void)send_ip(kMac, kStation);
  }
  EXPECT_THAT(stations().searches(), IsEmpty());
}

TEST_F(StationsTest, AStationThatWasForgottenIsLearntAgain) {
  serve();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(send_ip(kMac, kStation));
  pass(6min);
  ASSERT_EQ(stations().table().find(kStation), nullptr);
  EXPECT_TRUE(send_ip(kMac, kStation));
  EXPECT_NE(stations().table().find(kStation), nullptr);
}

TEST_F(StationsTest, PacketsOfAnotherStationAreNoSignOfLife) {
  serve();
  const auto before = stations().table().find(kStation)->heard();
  pass(100ms);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(send_ip(kOtherMac, kStation));
  EXPECT_EQ(stations().table().find(kStation)->heard(), before);
}

TEST_F(StationsTest, AFrameForAStationThatTheBridgeFloodsMakesItSuspect) {
  serve();
  (void)send_ip(kOtherMac, Ipv4Address(0x0a2c0012), kPeer, kMac);
  pass(1s);
  EXPECT_THAT(stations().searches(), IsEmpty()) << "not for its address";
  (void)send_ip(kOtherMac, Ipv4Address(0x0a2c0012), kStation, kMac);
  pass(1s);
  EXPECT_THAT(stations().searches(), ElementsAre(IpAddress(kStation)));
}

TEST_F(StationsTest, RequestsAndSearchesBecauseOfPacketsAreLimited) {
  constexpr std::uint32_t kMany = 2000;
  StationTable table(kMany, HashKey{1, 2});
  std::vector<StationAddress*> entries;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    StationBudget* const station = table.station(MacAddress(0x0200'0001'0000 + i));
    ASSERT_NE(station, nullptr);
    entries.push_back(table.on_owned(*station, Ipv4Address(0x0a2c0000 + i), now));
  }
  now += 1s;
  table.out().probes.clear();
  for (int i = 0; i < 10; ++i) {
    for (StationAddress* const entry : entries) {
      if (entry->is_silent(now)) table.on_packet(*entry, now);
    }
    now += 100ms;
    while (table.next_deadline() <= now) table.tick(now);
  }
  using Limits = StationOutput::Limits;
  EXPECT_LE(table.out().probes.size(), Limits::kProbes * 5 / 4 + 1);
  EXPECT_GT(table.out().probes.size(), Limits::kProbes / 2);
  EXPECT_LE(table.out().searches.size(), Limits::kSearches * 5 / 4 + 1);
  EXPECT_GT(table.out().searches.size(), 0U);
}

// --- Stations that have moved here, or away ------------------------------------------------------

class MovedStations : public StationsTest {
 protected:
  static constexpr Ipv4Address kMover{0x0a2c0033};
  static constexpr MacAddress kMoversMac{0x0200'0000'0033};
  static constexpr MacAddress kOfAnotherBridge{0x0200'0000'0044};

  MovedStations() {
    view.on_link_address(hardware(1));
    serve();
    serve_mover();
  }
  void serve_mover() {
    announce(kMoversMac, kMover);
    pass(1s);
    drain();
    EXPECT_TRUE(stations().table().find(kMover)->is_served());
  }
  /// The ARP messages to a MAC.
  [[nodiscard]] std::vector<EthernetArp> arps_to(MacAddress mac) {
    drain();
    std::vector<EthernetArp> out;
    for (const Frame& frame : written) {
      const auto arp = EthernetArp::parse(frame.bytes());
      if (header_of(frame).destination == mac && is_type(header_of(frame), EtherType::arp) && arp) {
        EXPECT_EQ(header_of(frame).source, NeighbourMacs::kOfOthers) << "not that of a station";
        out.push_back(*arp);
      }
    }
    return out;
  }
};

TEST_F(MovedStations, AFrameForAnUnknownMacGoesToTheNeighbourThatHasItsDestination) {
  view.on_neighbour(kPeer, hardware(2), false, now);
  EXPECT_TRUE(send_ip(kMoversMac, kMover, kPeer, kOfAnotherBridge));
  EXPECT_THAT(hops, ElementsAre(IpAddress(kPeer)));
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kPeer))) << "so that the station can be told";
  view.on_neighbour(kPeer, hardware(2), false, now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(header_of(written[0]).destination, kMoversMac);
  EXPECT_EQ(
      *EthernetArp::parse(written[0].bytes()),
      (EthernetArp{ArpOperation::reply, view.mac_of(hardware(2)), kPeer, kMoversMac, kMover}));
}

TEST_F(MovedStations, AFrameForAnUnknownMacAndDestinationIsDroppedAndTheFabricAsked) {
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kPeer, kOfAnotherBridge));
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kPeer)));
  view.wanted().clear();
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(send_ip(kMoversMac, kMover, Ipv4Address(0x0a2c1000 + i), kOfAnotherBridge));
  }
  EXPECT_LE(view.wanted().size(), StationBudget::kGuesses) << "each is a broadcast";
  EXPECT_EQ(view.counters().drop_destination, 101U);
}

TEST_F(MovedStations, GuessesOfAllStationsAreLimited) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::uint32_t number = i % 4;
    (void)send_ip(MacAddress(0x0200'0000'0060 + number), Ipv4Address(0x0a2c0060 + number),
                  Ipv4Address(0x0a2c1000 + i), kOfAnotherBridge);
  }
  EXPECT_LE(view.wanted().size(), Stations::kGuesses / 4);
}

TEST_F(MovedStations, NewcomersLeaveRoomForTheGuessesOfStations) {
  for (std::uint32_t i = 0; i < Requests::kMax; ++i) {
    send_arp(MacAddress(0x0200'0000'1000 + i), ArpOperation::request, Ipv4Address(0),
             Ipv4Address(0x0a2c1000 + i));
  }
  ASSERT_GT(view.counters().drop_request_limit, 0U);
  view.wanted().clear();
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kPeer, kOfAnotherBridge));
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kPeer)));
}

/// It may be a router, and will send the packet itself.
TEST_F(MovedStations, AFrameForAStationThatIsHereIsNotForwarded) {
  view.on_neighbour(kPeer, hardware(2), false, now);
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kPeer, kMac));
  EXPECT_EQ(view.counters().drop_destination, 1U);
}

/// It still has another address here, as far as the view knows.
TEST_F(MovedStations, AFrameForAStationThatHasMovedIsForwarded) {
  constexpr Ipv4Address kSecond{0x0a2c0034};
  announce(kMoversMac, kSecond);
  pass(1s);
  view.on_neighbour(kMover, hardware(2), false, now);
  pass(2s);
  view.on_neighbour(kMover, hardware(2), false, now);
  ASSERT_TRUE(stations().table().find(kSecond)->is_served());
  EXPECT_TRUE(send_ip(kMac, kStation, kMover, kMoversMac));
  announce(kMoversMac, kSecond);
  EXPECT_FALSE(send_ip(kMac, kStation, kMover, kMoversMac)) << "it is here, and may be a router";
}

TEST_F(MovedStations, AFrameForTheHostOrAStationIsNotForwarded) {
  view.on_neighbour(kPeer, hardware(2), false, now);
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kPeer, kHostMac));
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kHost, kOfAnotherBridge));
  EXPECT_THAT(view.wanted(), IsEmpty());
  EXPECT_STREQ(name(stations().table().find(kStation)->state_name()), "reachable");
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kStation, kMac)) << "the bridge has flooded it";
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kStation, kOfAnotherBridge));
  EXPECT_THAT(view.wanted(), IsEmpty());
}

/// The station knows this host's stations from behind another one.
TEST_F(MovedStations, AFrameForTheMacOfThisLinkGoesBackToTheStation) {
  const MacAddress of_link = view.mac_of(hardware(1));
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kStation, of_link));
  const auto told = arps_to(kMoversMac);
  EXPECT_THAT(told,
              ElementsAre(EthernetArp{ArpOperation::reply, kMac, kStation, kMoversMac, kMover}));
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(header_of(written[1]),
            (EthernetHeader{kMac, NeighbourMacs::kOfOthers, header_of(written[1]).type}));
  EXPECT_STREQ(name(stations().table().find(kStation)->state_name()), "probing")
      << "it was silent, and may have gone";
}

TEST_F(MovedStations, AFrameForAMacThatHasBecomeThatOfThisLinkGoesBack) {
  view.on_neighbour(kPeer, hardware(2), false, now);
  const MacAddress of_peer = view.mac_of(hardware(2));
  EXPECT_TRUE(send_ip(kMoversMac, kMover, kPeer, of_peer));
  view.on_link_address(hardware(2));
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kPeer, of_peer));
}

TEST_F(MovedStations, AFrameForTheMacOfThisLinkGoesBackToTheHost) {
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kHost, view.mac_of(hardware(1))));
  EXPECT_THAT(arps_to(kMoversMac),
              ElementsAre(EthernetArp{ArpOperation::reply, kHostMac, kHost, kMoversMac, kMover}));
  EXPECT_EQ(header_of(written.at(1)).destination, kHostMac);
  EXPECT_FALSE(send_ip(kMoversMac, kMover, Ipv4Address(0x08080808), view.mac_of(hardware(1))));
  drain();
  ASSERT_EQ(written.size(), 1U) << "the host may be a router";
  EXPECT_EQ(header_of(written[0]).destination, kHostMac);
}

TEST_F(MovedStations, AFrameThatCannotGoBackIsDropped) {
  const MacAddress of_link = view.mac_of(hardware(1));
  EXPECT_FALSE(send_ip(kMac, kStation, kStation, of_link)) << "to its sender";
  EXPECT_FALSE(send_ip(kHostMac, kHost, kElsewhere, of_link)) << "of the host, to the host";
  drain();
  EXPECT_TRUE(std::ranges::none_of(
      written, [](const Frame& frame) { return is_type(header_of(frame), EtherType::ipv4); }));
  EXPECT_EQ(view.counters().drop_destination, 2U);
}

TEST_F(MovedStations, AFrameForTheMacThatAStationHadElsewhereGoesToIt) {
  constexpr Ipv4Address kLate(0x0a2c0055);
  constexpr MacAddress kLateMac(0x0200'0000'0055);
  view.on_neighbour(kLate, hardware(5), false, now);
  view.on_neighbour(kPeer, hardware(5), false, now);  // another station there
  announce(kLateMac, kLate);
  pass(1s);
  drain();
  const MacAddress before = view.mac_of(hardware(5));
  EXPECT_FALSE(send_ip(kMoversMac, kMover, kLate, before));
  EXPECT_THAT(arps_to(kMoversMac),
              ElementsAre(EthernetArp{ArpOperation::reply, kLateMac, kLate, kMoversMac, kMover}));
  EXPECT_EQ(header_of(written.at(1)).destination, kLateMac);
  EXPECT_TRUE(send_ip(kMoversMac, kMover, kPeer, before)) << "it is still there";
  EXPECT_TRUE(send_ip(kMoversMac, kMover, kStation, before)) << "it may be a router";
}

TEST_F(MovedStations, AnUnknownMacOfTheLinkIsThatOfTheDestinationIfTheHostHasNoRoutes) {
  const MacAddress unknown = view.mac_of(hardware(77));
  EXPECT_TRUE(send_ip(kMoversMac, kMover, kPeer, unknown));
  EXPECT_THAT(hops, ElementsAre(std::nullopt)) << "the routes tell";
  HostView host;
  host.mac = kHostMac;
  view.on_host_changed(host, now);
  EXPECT_TRUE(send_ip(kMoversMac, kMover, kPeer, unknown));
  EXPECT_THAT(hops, ElementsAre(IpAddress(kPeer)));
  for (std::uint32_t i = 0; i < 100; ++i) {
    (void)send_ip(kMoversMac, kMover, Ipv4Address(0x0a2c1000 + i), unknown);
  }
  EXPECT_GE(view.counters().drop_destination, 100 - StationBudget::kGuesses);
}

TEST_F(MovedStations, ItIsToldWhetherTheHostIsARouter) {
  HostView host;
  host.mac = kHostMac;
  host.addresses = {{kPeer6, 64}};
  NdMessage question;
  question.type = NdType::neighbour_solicitation;
  question.source = kStation6;
  question.target = kPeer6;
  question.destination = kPeer6.solicited_node();
  for (const bool is_router : {true, false}) {
    host.is_ipv6_router = is_router;
    view.on_host_changed(host, now);
    drain();
    std::vector<std::uint8_t> bytes(NdMessage::kMaxEmitted);
    bytes.resize(question.emit(bytes));
    send(kMoversMac, view.mac_of(hardware(1)), EtherType::ipv6, bytes);
    drain();
    ASSERT_FALSE(written.empty());
    EXPECT_EQ(NdMessage::parse(written.back().bytes())->is_router, is_router);
  }
}

/// The station's own request does not reach the one that is here.
TEST_F(MovedStations, ARequestToTheMacOfThisLinkIsAnswered) {
  send_arp(kMoversMac, ArpOperation::request, kMover, kStation, view.mac_of(hardware(1)));
  EXPECT_THAT(arps_to(kMoversMac),
              ElementsAre(EthernetArp{ArpOperation::reply, kMac, kStation, kMoversMac, kMover}));
  for (std::uint32_t i = 0; i < StationBudget::kGuesses; ++i) {  // it is no guess
    send_arp(kMoversMac, ArpOperation::request, kMover, kHost, view.mac_of(hardware(1)));
    EXPECT_EQ(arps_to(kMoversMac).size(), 1U);
  }
  send_arp(kMoversMac, ArpOperation::request, kMover, kHost);
  EXPECT_THAT(arps_to(kMoversMac), IsEmpty()) << "the host answers itself";
}

TEST_F(MovedStations, AnArrivalByRarpIsAskedForTheAddressesOfNeighbours) {
  view.on_neighbour(kPeer, hardware(2), false, now);
  view.on_neighbour(kPeer6, hardware(2), false, now);
  std::vector<std::uint8_t> bytes(EthernetArp::kSize);
  EthernetArp{ArpOperation::request, kOtherMac, {}, kOtherMac, {}}.emit(bytes);
  bytes[7] = 3;
  const auto arrive = [&](MacAddress from) { send(from, kBroadcastMac, EtherType::rarp, bytes); };
  arrive(kMoversMac);
  EXPECT_THAT(batch, IsEmpty()) << "none is for the fabric";
  drain();
  EXPECT_THAT(written, IsEmpty()) << "from another MAC";
  EXPECT_EQ(view.counters().drop_malformed_arp, 1U);
  arrive(kOtherMac);
  EXPECT_THAT(
      arps_to(kOtherMac),
      ElementsAre(EthernetArp{ArpOperation::request, NeighbourMacs::kOfOthers, {}, {}, kPeer}));
  EXPECT_EQ(written.size(), 4U) << "a solicitation, and queries of IGMP and MLD";
  for (const Frame& frame : written) EXPECT_EQ(header_of(frame).destination, kOtherMac);
  EXPECT_EQ(std::ranges::count_if(
                written, [](const Frame& one) { return is_type(header_of(one), EtherType::ipv6); }),
            2);
  for (int i = 0; i < 100; ++i) arrive(kOtherMac);
  drain();
  EXPECT_LE(written.size(), 4 * StationBudget::kArrivals);
  EXPECT_GE(count().drop_budget, 100 - StationBudget::kArrivals);
}

TEST_F(MovedStations, AnArrivalClaimsNothing) {
  std::vector<std::uint8_t> bytes(EthernetArp::kSize);
  EthernetArp{ArpOperation::request, kOtherMac, kPeer, kOtherMac, kPeer}.emit(bytes);
  bytes[7] = 3;
  send(kOtherMac, kBroadcastMac, EtherType::rarp, bytes);
  EXPECT_EQ(stations().table().find(kPeer), nullptr);
  EXPECT_THAT(view.wanted(), IsEmpty());
}

TEST_F(StationsTest, RequestsBetweenStationsAreNotForTheFabric) {
  serve();
  send_arp(kOtherMac, ArpOperation::request, Ipv4Address(0x0a2c0012), kStation);
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(Ipv4Address(0x0a2c0012)))) << "only the claim";
}

TEST_F(StationsTest, ARequestForAStationThatHasMovedAwayReachesTheFabric) {
  serve();
  const auto ask = [this] { send_arp(kHostMac, ArpOperation::request, kHost, kStation); };
  ask();
  EXPECT_THAT(view.wanted(), IsEmpty());
  pass(2s);
  drain();
  EXPECT_TRUE(std::ranges::any_of(written, [](const Frame& frame) {
    return header_of(frame).destination == kMac;
  })) << "it is asked whether it is still there";
  pass(2s);
  ask();
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kStation)));
}

TEST_F(StationsTest, BroadcastsGoToAllWhateverTheirSubnet) {
  serve();
  EXPECT_TRUE(send_ip(kMac, kStation, Ipv4Address(0x0a2cffff), kBroadcastMac));
  EXPECT_THAT(hops, ElementsAre(IpAddress(Ipv4Address(0xffffffff))));
}

// --- Moves and duplicates ------------------------------------------------------------------------

TEST_F(StationsTest, AnAddressThatMovesAwayIsAnnouncedToTheOtherStations) {
  serve();
  view.on_neighbour(kStation, hardware(3), false, now);
  pass(1s);
  ASSERT_EQ(stations().services().size(), 1U);
  EXPECT_FALSE(stations().services()[0].on);
  drain();
  ASSERT_FALSE(written.empty());
  const MacAddress mac = view.mac_of(hardware(3));
  EXPECT_EQ(header_of(written.back()).destination, kBroadcastMac);
  EXPECT_EQ(EthernetArp::parse(std::as_const(written.back()).bytes()),
            (EthernetArp{ArpOperation::request, mac, kStation, {}, kStation}));
  EXPECT_TRUE(send_ip(kOtherMac, Ipv4Address(0x0a2c0012), kStation, mac));
  EXPECT_THAT(hops, ElementsAre(IpAddress(kStation))) << "the way to it is known at once";
}

TEST_F(StationsTest, AnIpv6AddressThatMovesAwayIsAdvertisedToTheOtherStations) {
  (void)send_nd(kMac, advertisement(kStation6, kAll));
  pass(1s);
  view.on_neighbour(kStation6, hardware(3), false, now);
  pass(1s);
  drain();
  ASSERT_FALSE(written.empty());
  const Frame& told = written.back();
  EXPECT_EQ(header_of(told).destination, wire::multicast_mac(kAll));
  const auto message = NdMessage::parse(told.bytes());
  ASSERT_TRUE(message);
  EXPECT_EQ(message->type, NdType::neighbour_advertisement);
  EXPECT_EQ(message->source, kStation6);
  EXPECT_EQ(message->target, kStation6);
  EXPECT_EQ(message->destination, kAll);
  EXPECT_TRUE(message->overrides);
  const auto option = told.bytes().last(wire::kEthernetOptionSize);
  EXPECT_TRUE(std::ranges::equal(option.subspan(2), view.mac_of(hardware(3)).bytes()));
}

TEST_F(StationsTest, AnAddressThatMovesHereIsNoLongerANeighbour) {
  view.on_neighbour(kStation, hardware(3), false, now);
  const MacAddress before = view.mac_of(hardware(3));
  announce();
  pass(1s);
  ASSERT_EQ(stations().services().size(), 1U);
  EXPECT_TRUE(send_ip(kMac, kStation));
  EXPECT_FALSE(send_ip(kOtherMac, Ipv4Address(0x0a2c0012), kStation, before));
  EXPECT_THAT(hops, IsEmpty()) << "it goes back to the station";
}

TEST_F(StationsTest, ADuplicateIsReportedAndNotDefended) {
  serve();
  announce(kOtherMac);
  EXPECT_EQ(stations().mac_of(kStation), kMac);
  send_arp(kMac, ArpOperation::reply, kStation, Ipv4Address(), NeighbourMacs::kOfOthers);
  ASSERT_EQ(stations().events().size(), 1U);
  EXPECT_EQ(stations().events()[0].kind, StationEvent::Kind::duplicate);
  EXPECT_THAT(stations().services(), IsEmpty());
  EXPECT_TRUE(send_ip(kMac, kStation));
}

// --- Multicast -----------------------------------------------------------------------------------

constexpr Ipv4Address kGroup{0xef010203};

std::vector<std::uint8_t> igmp(std::uint8_t type, Ipv4Address group) {
  std::vector<std::uint8_t> packet{0x45, 0, 0, 28, 0, 0, 0x40, 0, 1, 2, 0, 0};
  packet.insert(packet.end(), kStation.bytes().begin(), kStation.bytes().end());
  packet.insert(packet.end(), group.bytes().begin(), group.bytes().end());
  packet.insert(packet.end(), {type, 0, 0, 0});
  packet.insert(packet.end(), group.bytes().begin(), group.bytes().end());
  return packet;
}

TEST_F(StationsTest, GroupsThatStationsListenToAreJoined) {
  serve();
  (void)stations().take_groups();
  send(kMac, wire::multicast_mac(kGroup), EtherType::ipv4, igmp(0x16, kGroup));
  EXPECT_EQ(batch.size(), 1U) << "multicast routers of the fabric want to know, too";
  EXPECT_EQ(stations().take_groups(), std::vector{IpAddress(kGroup)});
  EXPECT_EQ(stations().take_groups(), std::nullopt);
  EXPECT_FALSE(stations().multicast().take_left_out());
  drain();
  send(kMac, wire::multicast_mac(kGroup), EtherType::ipv4, igmp(0x17, kGroup));
  drain();
  ASSERT_EQ(written.size(), 1U) << "a query about the group";
  EXPECT_EQ(header_of(written[0]).destination, wire::multicast_mac(kGroup));
  EXPECT_TRUE(wire::is_group_query(std::as_const(written[0]).bytes()));
  pass(3s);
  EXPECT_EQ(stations().take_groups(), std::vector<IpAddress>());
}

TEST_F(StationsTest, TheSolicitedNodeGroupOfAStationIsJoined) {
  (void)send_nd(kMac, advertisement(kStation6, kAll));
  pass(1s);
  EXPECT_EQ(stations().take_groups(), std::vector{IpAddress(kStation6.solicited_node())});
}

TEST_F(StationsTest, SolicitedNodeGroupsAreLimited) {
  constexpr std::size_t kMost = StationMulticast::kSolicitedNodes;
  StationTable table(kMost + 1, HashKey{1, 2});
  HostMessages messages(pool);
  StationMulticast multicast(HashKey{1, 2}, messages, kStation6);
  /// Two addresses of a station, with one solicited-node group.
  const auto serve_station = [&](std::size_t number) {
    StationBudget* const station = table.station(MacAddress(0x0200'0001'0000 + number));
    for (const std::uint8_t prefix : {std::uint8_t{1}, std::uint8_t{2}}) {
      auto bytes = kStation6.bytes();
      bytes[1] = prefix;
      store_be(&bytes[14], static_cast<std::uint16_t>(number));
      (void)table.on_owned(*station, Ipv6Address(bytes), now);
    }
    multicast.on_served();
  };
  for (std::size_t i = 0; i < kMost - 1; ++i) serve_station(i);
  EXPECT_EQ(multicast.take_groups(table)->size(), kMost - 1);
  EXPECT_EQ(multicast.left_out(), 0U);
  serve_station(kMost - 1);
  EXPECT_EQ(multicast.take_groups(table)->size(), kMost);
  EXPECT_EQ(multicast.left_out(), 0U);
  (void)table.on_owned(*table.station(kMac), *Ipv6Address::parse("fd44::1:1"), now);
  for (int i = 0; i < 2; ++i) {
    multicast.on_served();
    EXPECT_EQ(multicast.take_groups(table)->size(), kMost);
    EXPECT_EQ(multicast.left_out(), 1U) << "not once more with each look at them";
  }
}

TEST_F(StationsTest, AMessageThatLeavesManyGroupsCausesOneQuery) {
  serve();
  const auto change = [this](std::uint8_t type, std::uint8_t groups) {
    std::vector<std::uint8_t> packet{0x46, 0xc0, 0,    0, 0,  0,   0x40, 0, 1,  2,     0,
                                     0,    10,   44,   0, 17, 224, 0,    0, 22, 0x94,  4,
                                     0,    0,    0x22, 0, 0,  0,   0,    0, 0,  groups};
    for (std::uint8_t n = 0; n < groups; ++n)
      packet.insert(packet.end(), {type, 0, 0, 0, 239, 1, 1, n});
    store_be(&packet[2], static_cast<std::uint16_t>(packet.size()));
    send(kMac, wire::multicast_mac(Ipv4Address(0xe0000016)), EtherType::ipv4, packet);
    drain();
    for (const Frame& query : written) {
      EXPECT_EQ(query.bytes()[24 + 1], 10) << "tenths of a second to answer (RFC 3376, 8.8)";
    }
    return written.size();
  };
  constexpr std::uint8_t kJoin = 4, kLeave = 3;  // RFC 3376, 4.2.12: of all sources, of none
  for (const auto& [groups, queries] :
       {std::pair{StationMulticast::kQueriesAtOnce, StationMulticast::kQueriesAtOnce},
        std::pair{StationMulticast::kQueriesAtOnce + 1, std::size_t{1}}}) {
    EXPECT_EQ(change(kJoin, static_cast<std::uint8_t>(groups)), 0U);
    EXPECT_EQ(change(kLeave, static_cast<std::uint8_t>(groups)), queries) << groups;
    pass(10s);
    drain();
  }
}

TEST_F(StationsTest, StationsAreAskedForTheirGroups) {
  pass(1h);
  drain();
  EXPECT_THAT(written, IsEmpty()) << "there is none";
  announce();
  const auto queries_after = [this](Duration time) {
    pass(time);
    drain();
    std::vector<std::uint16_t> types;
    for (const Frame& frame : written) {
      if (wire::is_group_query(frame.bytes())) types.push_back(header_of(frame).type);
    }
    return types;
  };
  EXPECT_THAT(queries_after(0s), ElementsAre(static_cast<std::uint16_t>(EtherType::ipv4),
                                             static_cast<std::uint16_t>(EtherType::ipv6)));
  EXPECT_THAT(queries_after(1s), IsEmpty());
}

TEST_F(StationsTest, UnknownMulticastIsLimited) {
  serve();
  send(kMac, wire::multicast_mac(kGroup), EtherType::ipv4, igmp(0x16, kGroup));
  for (std::uint32_t i = 0; i < 2 * StationBudget::kGroupBurst; ++i) {
    const Ipv4Address group(0xef020000 + i);
    (void)send_ip(kMac, kStation, group, wire::multicast_mac(group));
  }
  EXPECT_EQ(count().drop_group, StationBudget::kGroupBurst);
  EXPECT_TRUE(send_ip(kMac, kStation, kGroup, wire::multicast_mac(kGroup)))
      << "one that a station listens to is joined anyway";
  const Ipv4Address known(0xef020000);
  EXPECT_TRUE(send_ip(kMac, kStation, known, wire::multicast_mac(known)));
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(send_ip(kMac, kStation, known, wire::multicast_mac(known))) << "a stream is not";
  }
}

/// What one virtual machine can do to the multicast LIDs of the subnet.
TEST_F(StationsTest, ManyReportsOfOneStationStayWithinItsShare) {
  serve();
  constexpr std::uint32_t kRecords = 128;
  for (std::uint32_t i = 0; i < 8; ++i) {
    std::vector<std::uint8_t> packet{0x46, 0xc0, 0,    0, 0,  0,   0x40, 0, 1,  2,       0,
                                     0,    10,   44,   0, 17, 224, 0,    0, 22, 0x94,    4,
                                     0,    0,    0x22, 0, 0,  0,   0,    0, 0,  kRecords};
    for (std::uint32_t n = 0; n < kRecords; ++n) {
      packet.insert(packet.end(), {4, 0, 0, 0});
      const Ipv4Address group(0xef000000 + kRecords * i + n);
      packet.insert(packet.end(), group.bytes().begin(), group.bytes().end());
    }
    store_be(&packet[2], static_cast<std::uint16_t>(packet.size()));
    send(kMac, wire::multicast_mac(Ipv4Address(0xe0000016)), EtherType::ipv4, packet);
  }
  pass(10s);
  const auto joined = stations().take_groups();
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->size(), StationGroups::kShare);
  EXPECT_EQ(stations().multicast().left_out(), 8 * kRecords - StationGroups::kShare);
  const auto left_out = stations().multicast().take_left_out();
  ASSERT_TRUE(left_out);
  EXPECT_EQ(left_out->station, kMac);
  EXPECT_FALSE(stations().multicast().take_left_out()) << "once";
}

// --- Security ------------------------------------------------------------------------------------

TEST_F(StationsTest, NoStationHasAnAddressOfTheHost) {
  for (const Ipv4Address address : {kHost, kElsewhere}) {
    announce(kMac, address);
    EXPECT_FALSE(send_ip(kMac, address));
    EXPECT_EQ(stations().table().find(address), nullptr);
  }
  EXPECT_EQ(count().drop_address, 4U);
  HostView host;
  host.mac = kHostMac;
  host.addresses = {{kPeer6, 64}};
  view.on_host_changed(host, now);
  EXPECT_FALSE(stations().receive_discovery({wire::multicast_mac(kAll), kMac},
                                            advertisement(kPeer6, kAll), now))
      << "the fabric does not hear of it";
  EXPECT_EQ(count().drop_address, 5U);
}

TEST_F(StationsTest, AFrameThatIsDroppedGoesBackToThePool) {
  const auto available = pool.available();
  EXPECT_FALSE(send_ip(kMac, kHost));
  EXPECT_EQ(pool.available(), available);
}

TEST_F(StationsTest, AnotherInterfaceOfTheHostMayHaveTheAddress) {
  HostView host;
  host.mac = kHostMac;
  host.addresses = {{kHost, 24}};
  host.local = {{kHost, 32}, {kElsewhere, 32}};
  host.macs = {kMac};
  view.on_host_changed(host, now);
  EXPECT_TRUE(send_ip(kMac, kElsewhere));
  EXPECT_TRUE(send_ip(kMac, kHost)) << "weak host model";
  EXPECT_EQ(stations().table().find(kHost), nullptr) << "nothing is learnt from it";
  EXPECT_FALSE(send_ip(kOtherMac, kElsewhere));
  EXPECT_FALSE(send_ip(kOtherMac, kHost));
}

// --- Several MACs of one host --------------------------------------------------------------------

TEST_F(StationsTest, AnAddressOfAnInterfaceOfTheHostIsServedAtOnceAndEndsWithIt) {
  HostView host;
  host.mac = kHostMac;
  host.addresses = {{kHost, 24}};
  host.macs = {kMac};
  view.on_host_changed(host, now);
  announce();
  EXPECT_THAT(stations().services(), IsEmpty()) << "it may be that of a container";
  host.local = {{kHost, 32}, {kStation, 32}};
  host.link_addresses = {{kMac, kStation}};
  view.on_host_changed(host, now);
  ASSERT_EQ(stations().services().size(), 1U);
  EXPECT_TRUE(stations().services()[0].on);
  EXPECT_EQ(stations().mac_of(kStation), kMac);
  view.on_neighbour(kStation, hardware(2), false, now);
  host.local = {{kHost, 32}};
  host.link_addresses = {};
  view.on_host_changed(host, now);
  ASSERT_EQ(stations().services().size(), 2U);
  EXPECT_FALSE(stations().services()[1].on);
  host.link_addresses = {{kMac, kStation}};
  view.on_host_changed(host, now);
  view.wanted().clear();
  announce();
  EXPECT_EQ(stations().services().size(), 3U);
  EXPECT_THAT(view.wanted(), IsEmpty()) << "netlink was first";
}

TEST_F(StationsTest, RequestsOfTheHostWithAnotherMacArePassedOn) {
  HostView host;
  host.mac = kHostMac;
  host.addresses = {{kHost, 24}};
  host.macs = {kMac};
  view.on_host_changed(host, now);
  send_arp(kMac, ArpOperation::request, kHost, kPeer);
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kPeer)));
  view.on_neighbour(kPeer, hardware(2), false, now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(header_of(written[0]).destination, kMac);
  EXPECT_EQ(stations().table().find(kHost), nullptr);
}

TEST_F(StationsTest, AnAdvertisementOfAVirtualRouterClaimsNoAddress) {
  constexpr MacAddress kVirtual{0x0000'5e00'0133};
  constexpr Ipv4Address kRouters{0xe0000012};
  const auto advertise = [&](MacAddress from, Ipv4Address source) {
    std::vector<std::uint8_t> packet(32);
    packet[0] = 0x45;
    packet[3] = 32;
    packet[8] = 255;
    packet[9] = 112;
    std::ranges::copy(source.bytes(), packet.begin() + 12);
    std::ranges::copy(kRouters.bytes(), packet.begin() + 16);
    send(from, wire::multicast_mac(kRouters), EtherType::ipv4, packet);
    return !batch.empty();
  };
  for (const Ipv4Address source : {kHost, kStation}) {
    EXPECT_TRUE(advertise(kVirtual, source));
    EXPECT_EQ(stations().table().find(source), nullptr);
  }
  EXPECT_FALSE(advertise(kMac, kHost)) << "the host's address with the MAC of a station";
  EXPECT_TRUE(advertise(kMac, kStation));
  EXPECT_NE(stations().table().find(kStation), nullptr);
}

TEST_F(StationsTest, AnotherMacMaySendFromTheAddressOfAStation) {
  serve();
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(send_ip(kOtherMac, kStation));
  EXPECT_EQ(stations().mac_of(kStation), kMac) << "nothing is learnt from it";
  send_arp(kOtherMac, ArpOperation::request, kStation, kPeer);
  EXPECT_THAT(view.wanted(), ElementsAre(IpAddress(kPeer)));
  EXPECT_STREQ(name(stations().table().find(kStation)->state_name()), "reachable");
  EXPECT_EQ(count().drop_address + count().address_limit, 0U);
  drain();
  EXPECT_THAT(written, IsEmpty()) << "nobody is asked";
  announce(kOtherMac);
  EXPECT_STREQ(name(stations().table().find(kStation)->state_name()), "contested");
}

TEST_F(StationsTest, WithStrictSourcesAnotherMacMayNotSendFromTheAddress) {
  View strict{{.neighbours = 64, .stations = 8, .strict = true}, HashKey{1, 2}, pool};
  HostView host;
  host.mac = kHostMac;
  strict.on_host_changed(host, now);
  const auto arp = [&](MacAddress from, ArpOperation operation, Ipv4Address target) {
    Frame made = pool.take();
    made.window(View::kHeadroom, EthernetArp::kSize);
    EthernetArp{operation, from, kStation, {}, target}.emit(made.bytes());
    EthernetHeader{kBroadcastMac, from, 0x806}.emit(made.bytes().data() - EthernetHeader::kSize);
    batch.clear();
    batch.push_back(std::move(made));
    strict.from_host(batch, hops, now);
  };
  arp(kMac, ArpOperation::request, kStation);
  now += 1s;
  strict.tick(now);
  strict.wanted().clear();
  arp(kOtherMac, ArpOperation::request, kPeer);
  EXPECT_THAT(strict.wanted(), IsEmpty());
  EXPECT_EQ(strict.stations()->table().counters().drop_address, 1U);
  arp(kMac, ArpOperation::request, kPeer);
  EXPECT_THAT(strict.wanted(), ElementsAre(IpAddress(kPeer)));
}

// --- Addresses with the host's MAC (ipvlan) ------------------------------------------------------

TEST_F(StationsTest, AnotherAddressWithTheHostsMacIsServed) {
  announce(kHostMac);
  pass(1s);
  ASSERT_EQ(stations().services().size(), 1U);
  EXPECT_EQ(stations().services()[0].address, IpAddress(kStation));
  EXPECT_EQ(stations().mac_of(kStation), kHostMac);
  view.on_request(request_of_peer(kStation), now);
  drain();
  ASSERT_FALSE(written.empty());
  EXPECT_EQ(header_of(written.back()).destination, kHostMac);
  send_arp(kHostMac, ArpOperation::reply, kStation, kPeer);
  EXPECT_THAT(stations().replies(), ElementsAre(request_of_peer(kStation)));
  EXPECT_TRUE(send_ip(kHostMac, kStation));
}

TEST_F(StationsTest, AnAdvertisementWithTheHostsMacIsAClaimUnlessItIsThatOfAProxy) {
  NdMessage message = advertisement(kStation6, kAll);
  EXPECT_TRUE(send_nd(kHostMac, message)) << "passes as it is";
  EXPECT_EQ(stations().table().find(kStation6), nullptr);
  message.overrides = true;
  EXPECT_FALSE(send_nd(kHostMac, message));
  pass(1s);
  EXPECT_EQ(stations().mac_of(kStation6), kHostMac);
  message.overrides = false;
  EXPECT_TRUE(send_nd(kHostMac, message)) << "a reply to a unicast solicitation";
}

TEST_F(StationsTest, TheHostsOwnMessagesSayNothingAboutStations) {
  announce(kHostMac, kElsewhere);
  EXPECT_THAT(view.wanted(), IsEmpty()) << "it asks for nothing";
  for (const Ipv4Address address : {kHost, kElsewhere, Ipv4Address()}) {
    send_arp(kHostMac, ArpOperation::request, address, kPeer);
    EXPECT_EQ(stations().table().find(address), nullptr);
  }
  EXPECT_TRUE(send_ip(kHostMac, kStation)) << "it may be a router";
  EXPECT_EQ(stations().table().size(), 0U);
  HostView proxy;
  proxy.mac = kHostMac;
  proxy.proxied = {kStation};
  view.on_host_changed(proxy, now);
  send_arp(kHostMac, ArpOperation::reply, kStation, kPeer);
  EXPECT_EQ(stations().table().size(), 0U) << "the link replies as a proxy itself";
}

TEST_F(StationsTest, TheHostTakesAddressesThatNetlinkAnnouncesLater) {
  announce(kHostMac);
  HostView host;
  host.mac = kHostMac;
  host.local = {{kStation, 32}};
  view.on_host_changed(host, now);
  EXPECT_EQ(stations().table().find(kStation), nullptr);
}

TEST_F(StationsTest, GroupsOfOtherInterfacesWithTheHostsMacAreKnown) {
  constexpr Ipv4Address kRouters{0xe0000012};
  std::vector<std::uint8_t> report(28);
  report[0] = 0x45;
  report[3] = 28;
  report[9] = 2;
  std::ranges::copy(kHost.bytes(), report.begin() + 12);
  std::ranges::copy(kRouters.bytes(), report.begin() + 16);
  report[20] = 0x16;  // of IGMPv2
  std::ranges::copy(kRouters.bytes(), report.begin() + 24);
  HostView host;
  host.mac = kHostMac;
  host.addresses = {{kHost, 24}};
  host.groups = {kRouters};
  view.on_host_changed(host, now);
  send(kHostMac, wire::multicast_mac(kRouters), EtherType::ipv4, report);
  using Groups = std::vector<IpAddress>;
  EXPECT_EQ(stations().take_groups().value_or(Groups()), Groups()) << "the link knows it already";
  host.groups = {};
  view.on_host_changed(host, now);
  send(kHostMac, wire::multicast_mac(kRouters), EtherType::ipv4, report);
  EXPECT_EQ(stations().take_groups().value_or(Groups()), Groups{kRouters});
}

TEST_F(StationsTest, TheHostsMacMayHaveManyAddresses) {
  for (std::uint8_t i = 0; i < 40; ++i) {
    announce(kHostMac, Ipv4Address(kStation.number() + i));
    pass(1s);
  }
  EXPECT_EQ(stations().table().size(), 8U) << "as many as there may be stations";
}

TEST_F(StationsTest, AnAddressThatTheHostGetsIsTakenFromItsStation) {
  serve();
  HostView host;
  host.mac = kHostMac;
  host.addresses = {{kStation, 24}};
  view.on_host_changed(host, now);
  ASSERT_EQ(stations().services().size(), 1U);
  EXPECT_FALSE(stations().services()[0].on);
}

TEST_F(StationsTest, NoStationSendsFromTheAddressOfANeighbour) {
  view.on_neighbour(kPeer, hardware(2), false, now);
  EXPECT_FALSE(send_ip(kMac, kPeer));
  EXPECT_EQ(count().drop_address, 1U);
  pass(4s);
  EXPECT_FALSE(send_ip(kMac, kPeer)) << "nor through a router";
}

TEST_F(StationsTest, OddSourcesAreDropped) {
  EXPECT_FALSE(send_ip(kMac, Ipv4Address(0xe0000001)));
  EXPECT_FALSE(send_ip(kMac, Ipv4Address(0x7f000001)));
  EXPECT_FALSE(send_ip(kMac, Ipv4Address(0xffffffff)));
  EXPECT_FALSE(send_ip(kMac, Ipv4Address(0x0a2c00ff)));
  EXPECT_EQ(count().drop_address, 4U);
  EXPECT_FALSE(send_ip(NeighbourMacs::kOfOthers, kStation));
  EXPECT_FALSE(send_ip(kBroadcastMac, kStation));
  EXPECT_EQ(view.counters().drop_source, 2U);
}

/// Linux gives such a MAC to one in 64 containers.
TEST_F(StationsTest, AStationsMacMayBeginAsThoseOfNeighbours) {
  constexpr MacAddress kLikeANeighbour{0x0600'0000'0011};
  announce(kLikeANeighbour);
  pass(1s);
  ASSERT_TRUE(stations().table().find(kStation)->is_served());
  EXPECT_TRUE(send_ip(kLikeANeighbour, kStation));
  EXPECT_EQ(view.counters().drop_source, 0U);
  EXPECT_FALSE(send_ip(kOtherMac, Ipv4Address(0x0a2c0022), kStation, kLikeANeighbour))
      << "flooded by a bridge";
  EXPECT_EQ(view.counters().drop_destination, 1U);
}

TEST_F(StationsTest, NoStationSendsFromTheMacOfANeighbour) {
  const MacAddress mac = view.mac_of(hardware(2));
  view.on_neighbour(kPeer, hardware(2), false, now);
  EXPECT_FALSE(send_ip(mac, kStation));
  EXPECT_EQ(view.counters().drop_source, 1U);
}

/// A loop behind the bridge sends it back.
TEST_F(StationsTest, ARequestOfTheFabricThatComesBackIsNotOfAStation) {
  view.on_request(request_of_peer(kStation), now);
  drain();
  ASSERT_EQ(written.size(), 1U);
  const EthernetArp request = *EthernetArp::parse(std::as_const(written[0]).bytes());
  send_arp(request.sender_hardware, ArpOperation::request, kPeer, kStation);
  EXPECT_EQ(view.counters().drop_source, 1U);
  EXPECT_EQ(stations().table().size(), 0U);
}

TEST_F(StationsTest, ArpWithAnotherHardwareAddressThanTheFrameIsDropped) {
  std::vector<std::uint8_t> bytes(EthernetArp::kSize);
  EthernetArp{ArpOperation::request, kOtherMac, kStation, {}, kStation}.emit(bytes);
  send(kMac, kBroadcastMac, EtherType::arp, bytes);
  EXPECT_EQ(stations().table().size(), 0U);
  EXPECT_EQ(count().drop_address, 1U);
}

TEST_F(StationsTest, BroadcastsAndReportsOfGroupsShareABudget) {
  serve();
  (void)stations().take_groups();
  const auto broadcast = [this](MacAddress from) {
    return send_ip(from, Ipv4Address(), Ipv4Address(0xffffffff), kBroadcastMac);
  };
  const auto report = [this](Ipv4Address group) {
    send(kMac, wire::multicast_mac(group), EtherType::ipv4, igmp(0x16, group));
    return !batch.empty();
  };
  const std::uint32_t burst = StationBudget::kBroadcasts / 4;
  for (std::uint32_t i = 0; i < burst; ++i) {
    ASSERT_TRUE(i % 2 == 0 ? broadcast(kMac) : report(kGroup)) << i;
  }
  EXPECT_FALSE(broadcast(kMac));
  EXPECT_FALSE(report(Ipv4Address(kGroup.number() + 1)));
  EXPECT_EQ(count().drop_budget, 2U);
  EXPECT_EQ(stations().take_groups(), std::vector{IpAddress(kGroup)}) << "not of what was dropped";
  EXPECT_TRUE(broadcast(kOtherMac)) << "another station";
  EXPECT_TRUE(send_ip(kMac, kStation)) << "unicast is not limited";
}

TEST_F(StationsTest, RequestsOfAStationHaveABudget) {
  serve();
  for (std::uint32_t i = 0; i < StationBudget::kRequests; ++i) {
    send_arp(kMac, ArpOperation::request, kStation, Ipv4Address(0x0b000000 + i));
  }
  EXPECT_EQ(view.wanted().size(), StationBudget::kRequests / 4);
  EXPECT_EQ(count().drop_budget, StationBudget::kRequests - StationBudget::kRequests / 4);
}

TEST_F(StationsTest, WithoutStationsOnlyTheHostSends) {
  View alone{{.neighbours = 64}, HashKey{1, 2}, pool};
  HostView host;
  host.mac = kHostMac;
  alone.on_host_changed(host, now);
  EXPECT_EQ(alone.stations(), nullptr);
  Frame frame = pool.take();
  frame.window(View::kHeadroom, 28);
  EthernetHeader{kBroadcastMac, kMac, 0x0800}.emit(frame.bytes().data() - EthernetHeader::kSize);
  batch.clear();
  batch.push_back(std::move(frame));
  alone.from_host(batch, hops, now);
  EXPECT_THAT(batch, IsEmpty());
  EXPECT_EQ(alone.counters().drop_source, 1U);
}

}  // namespace
}  // namespace ipoib::ethernet::stations_test
