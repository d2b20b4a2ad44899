// A link that speaks for stations behind the host.
#include <gmock/gmock.h>

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Arp;
using wire::ArpOperation;

constexpr Ipv4Address kStation{0x0a2c0011};
constexpr Ipv4Address kOther{0x0a2c0012};
const Ipv6Address kStation6 = *Ipv6Address::parse("fd44::11");
const Ipv6Address kPeer6 = *Ipv6Address::parse("fd44::2");

class LinkWithStations : public LinkFixture {
 protected:
  LinkWithStations() {
    config.reports_neighbours = true;
    config.serves_stations = true;
    config.limits.station_requests = 8;
  }
  void serve(const IpAddress& address = kStation, bool is_router = false) {
    link->serve(address, is_router, now);
  }
  /// Sends the announcements that are due at once.
  void announcements() {
    while (link->next_deadline() <= now + 10ms) tick_to(link->next_deadline());
  }
  [[nodiscard]] Arp request_for(Ipv4Address target, Ipv4Address from = kPeer) const {
    Arp message = arp_from_peer(ArpOperation::request);
    message.sender_protocol = from;
    message.target_protocol = target;
    return message;
  }
  void receive_nd(const wire::NdMessage& message) {
    Frame frame = pool.take();
    frame.window(kHeadroom, wire::NdMessage::kMaxEmitted);
    const std::size_t size = message.emit(frame.bytes());
    frame.window(kHeadroom, size);
    receive(datagram(encapsulated(std::move(frame), wire::EtherType::ipv6), broadcast()));
  }
};

TEST_F(LinkWithStations, AnnouncesTheAddressOfAStation) {
  bring_up();
  announcements();
  forget();
  serve();
  announcements();
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kStation);
  EXPECT_EQ(sent_arp()[0].target_protocol, kStation);
  EXPECT_EQ(sent_arp()[0].sender_hardware.qpn, kOwnQpn);
  forget();
  serve();
  announcements();
  EXPECT_THAT(sent_arp(), IsEmpty()) << "it is known";
  link->withdraw(kStation);
  tick_to(now + 10s);
  for (const Arp& message : sent_arp()) {
    EXPECT_NE(message.sender_protocol, kStation) << "the second announcement is skipped";
  }
}

TEST_F(LinkWithStations, AnnouncesAStationAlthoughItsFormerHostStillAnswersForIt) {
  bring_up();
  announcements();
  forget();
  serve();
  receive_arp(request_for(kPeer, kStation), broadcast());
  announcements();
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kStation);
}

TEST_F(LinkWithStations, AnnouncesAStationAgainThatAnnouncesItself) {
  bring_up();
  serve();
  tick_to(now + 10s);
  forget();
  serve();
  announcements();
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].target_protocol, kStation);
}

TEST_F(LinkWithStations, AnnouncesStationsAgainWithAnotherQueuePair) {
  bring_up();
  serve();
  tick_to(now + 10s);
  forget();
  link->on_queue_pair(Qpn(0x99), now);
  announcements();
  std::vector<Ipv4Address> announced;
  for (const Arp& message : sent_arp()) announced.push_back(message.sender_protocol);
  EXPECT_THAT(announced, Contains(kStation));
}

TEST_F(LinkWithStations, PassesOnRequestsAndAnswersWhenItIsTold) {
  bring_up();
  serve();
  announcements();
  forget();
  receive_arp(request_for(kStation), broadcast());
  EXPECT_THAT(sent_arp(), IsEmpty());
  ASSERT_THAT(link->station_requests(), ElementsAre(request_for(kStation)));
  link->reply_to_arp(request_for(kStation), now);
  grant_paths();
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].operation, ArpOperation::reply);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kStation);
  EXPECT_EQ(state_of(kPeer), "stale");
}

TEST_F(LinkWithStations, PassesOnRequestsForUnknownAddressesButNotItsOwn) {
  bring_up();
  receive_arp(request_for(kOther), broadcast());
  EXPECT_EQ(link->station_requests().size(), 1U);
  receive_arp(request_for(kOwnIp), broadcast());
  EXPECT_EQ(link->station_requests().size(), 1U);
  receive_arp(request_for(kPeer), broadcast());
  EXPECT_EQ(link->station_requests().size(), 1U) << "an announcement asks for nothing";
}

/// keepalived sets arp_ignore, so that only its macvlan interface replies for a virtual address.
TEST_F(LinkWithStations, RequestsForAnAddressOfAnotherInterfaceOfTheHostArePassedOn) {
  bring_up();
  HostView host = view;
  host.local = {{kOwnIp, 32}, {kStation, 32}};
  host.arp.ignore = 1;
  link->on_host_changed(host, now);
  forget();
  receive_arp(request_for(kStation), broadcast());
  EXPECT_EQ(link->station_requests().size(), 1U) << "it is not known yet";
  link->station_requests().clear();
  host.arp.ignore = 0;
  link->on_host_changed(host, now);
  serve();
  receive_arp(request_for(kStation), broadcast());
  EXPECT_EQ(link->station_requests().size(), 1U) << "its own interface replies";
}

TEST_F(LinkWithStations, AProbeIsPassedOnAndAnsweredToAll) {
  bring_up();
  const Arp probe = request_for(kStation, Ipv4Address());
  receive_arp(probe, broadcast());
  ASSERT_THAT(link->station_requests(), ElementsAre(probe));
  EXPECT_EQ(count(Counter::drop_bad_arp_sender), 0U);
  link->reply_to_arp(probe, now);
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kStation);
}

TEST_F(LinkWithStations, RequestsForUnknownAddressesDoNotUseUpThoseForKnownOnes) {
  bring_up();
  serve();
  for (std::uint32_t i = 0; i < 20; ++i)
    receive_arp(request_for(Ipv4Address(0x0a2c0100 + i)), broadcast());
  EXPECT_EQ(link->station_requests().size(), 2U) << "a quarter of a second";
  EXPECT_EQ(count(Counter::arp_limited), 18U);
  receive_arp(request_for(kStation), broadcast());
  EXPECT_EQ(link->station_requests().size(), 3U);
}

TEST_F(LinkWithStations, WithoutStationsNothingIsPassedOn) {
  config.serves_stations = false;
  bring_up();
  receive_arp(request_for(kOther), broadcast());
  receive_arp(request_for(kOther, Ipv4Address()), broadcast());
  EXPECT_THAT(link->station_requests(), IsEmpty());
  EXPECT_EQ(count(Counter::drop_bad_arp_sender), 1U);
}

TEST_F(LinkWithStations, ReportsClaimsOfTheAddressOfAStation) {
  bring_up();
  serve();
  link->known_neighbours().clear();
  receive_arp(request_for(kPeer, kStation), broadcast());
  EXPECT_THAT(link->known_neighbours(), ElementsAre(KnownNeighbour{kStation, kPeerHw, false}));
  EXPECT_EQ(state_of(kStation), "gone");
  link->known_neighbours().clear();
  serve(kStation6);
  wire::NdMessage message;
  message.type = wire::NdType::neighbour_advertisement;
  message.source = message.target = kStation6;
  message.destination = *Ipv6Address::parse("ff02::1");
  message.overrides = true;
  message.target_link_layer = kPeerHw;
  receive_nd(message);
  EXPECT_THAT(link->known_neighbours(), ElementsAre(KnownNeighbour{kStation6, kPeerHw, false}));
  EXPECT_EQ(state_of(kStation6), "gone");
}

TEST_F(LinkWithStations, AnAddressThatANeighbourClaimsIsNotAnnouncedAgain) {
  bring_up();
  serve();
  announcements();
  receive_arp(request_for(kStation, kStation), broadcast());
  forget();
  tick_to(now + 10s);
  for (const Arp& message : sent_arp()) {
    EXPECT_NE(message.sender_protocol, kStation) << "it may have moved there";
  }
}

TEST_F(LinkWithStations, AnAddressThatIsServedIsNoNeighbour) {
  bring_up();
  resolve_peer();
  serve(kPeer);
  EXPECT_EQ(state_of(kPeer), "gone");
  send(kPeer);
  EXPECT_EQ(count(Counter::drop_bad_destination), 1U);
  link->withdraw(kPeer);
  send(kPeer);
  EXPECT_EQ(state_of(kPeer), "incomplete");
}

TEST_F(LinkWithStations, AsksFromTheAddressOfTheStationThatSends) {
  view.addresses.clear();
  bring_up();
  serve(kStation);
  serve(kOther);
  announcements();
  forget();
  send(ip_packet(kPeer, kStation));
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kStation);
}

TEST_F(LinkWithStations, AReplyToTheStationItAskedForConfirmsTheNeighbour) {
  view.addresses.clear();
  bring_up();
  serve(kStation);
  send(ip_packet(kPeer, kStation));
  Arp reply = arp_from_peer(ArpOperation::reply);
  reply.target_protocol = kOther;
  receive_arp(reply);
  grant_paths();
  EXPECT_EQ(state_of(kPeer), "delay") << "somebody else has asked";
  reply.target_protocol = kStation;
  receive_arp(reply);
  EXPECT_EQ(state_of(kPeer), "reachable");
  EXPECT_THAT(link->station_requests(), IsEmpty());
}

TEST_F(LinkWithStations, AsksFromTheNearestStationIfTheHostHasNoAddress) {
  view.addresses.clear();
  view.local = {{Ipv4Address(0xc0a80001), 32}};
  bring_up();
  serve(Ipv4Address(0x0a2c0011));
  serve(Ipv4Address(0x0b000011));
  announcements();
  forget();
  link->solicit(Ipv4Address(0x0b000022), now);
  link->solicit(Ipv4Address(0x0a2c0022), now);
  link->solicit(Ipv4Address(0x0aff0022), now);
  ASSERT_EQ(sent_arp().size(), 3U);
  EXPECT_EQ(sent_arp()[0].sender_protocol, Ipv4Address(0x0b000011));
  EXPECT_EQ(sent_arp()[1].sender_protocol, Ipv4Address(0x0a2c0011));
  EXPECT_EQ(sent_arp()[2].sender_protocol, Ipv4Address(0x0a2c0011)) << "between both";
}

TEST_F(LinkWithStations, TheNearestStationIsTheOneWithTheLongerCommonPrefix) {
  view.addresses.clear();
  bring_up();
  serve(Ipv4Address(0x0a2c0011));
  serve(Ipv4Address(0x0a2cff11));
  announcements();
  forget();
  link->solicit(Ipv4Address(0x0a2cff01), now);
  link->solicit(Ipv4Address(0x0a2c0022), now);
  ASSERT_EQ(sent_arp().size(), 2U);
  EXPECT_EQ(sent_arp()[0].sender_protocol, Ipv4Address(0x0a2cff11)) << "the one after it";
  EXPECT_EQ(sent_arp()[1].sender_protocol, Ipv4Address(0x0a2c0011)) << "the one before it";
}

/// From another address: whoever checks an address takes a request without one for a conflict.
TEST_F(LinkWithStations, SearchesAnAddressThatItServes) {
  view.addresses.clear();
  bring_up();
  for (const IpAddress& address : {IpAddress(kStation), IpAddress(kOther), IpAddress(kStation6)}) {
    serve(address);
  }
  tick_to(now + 10s);
  grant_joins();
  forget();
  link->search(kStation, now);
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].target_protocol, kStation);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kOther);
  link->withdraw(kOther);
  link->search(kStation, now);
  EXPECT_TRUE(sent_arp().at(1).sender_protocol.is_unspecified()) << "there is no other one";

  forget();
  link->search(kStation6, now);
  ASSERT_EQ(link->sends().size(), 1U);
  const auto message = wire::NdMessage::parse(link->sends()[0].frame.bytes().subspan(kHeadroom));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->target, kStation6);
  EXPECT_EQ(message->destination, kAllNodesOfIpv6) << "not all members of its group are known";
  EXPECT_EQ(message->source, wire::link_local_address(link->hardware_address().gid.guid()));
  EXPECT_EQ(message->source_link_layer, link->hardware_address());
}

/// The host has no IPv6 address, and no station has one yet.
TEST_F(LinkWithStations, AnIpv6AddressIsCheckedWithoutAnAddressOfItsOwn) {
  bring_up();
  link->solicit(kPeer6, now);
  tick_to(now + 10ms);
  const auto& counters = link->counters();
  EXPECT_EQ(counters[Counter::nd_solicitations_multicast], 1U);
}

TEST_F(LinkWithStations, ASolicitationForAStationCreatesAnEntryForItsSender) {
  bring_up();
  wire::NdMessage message;
  message.source = kPeer6;
  message.target = kStation6;
  message.destination = kStation6.solicited_node();
  message.source_link_layer = kPeerHw;
  receive_nd(message);
  EXPECT_EQ(state_of(kPeer6), "gone");
  EXPECT_EQ(link->to_host().size(), 1U) << "the station answers by itself";
  EXPECT_THAT(link->known_neighbours(), ElementsAre(KnownNeighbour{kPeer6, kPeerHw, false}))
      << "so that the solicitation can show its sender";
  serve(kStation6);
  receive_nd(message);
  EXPECT_NE(state_of(kPeer6), "gone");
}

TEST_F(LinkWithStations, AnnouncesARouterAsARouter) {
  bring_up();
  serve(kStation6, true);
  announcements();
  grant_joins();
  const auto advertised = [&]() -> std::optional<wire::NdMessage> {
    for (const Outgoing& sent : link->sends()) {
      const auto message = wire::NdMessage::parse(sent.frame.bytes().subspan(kHeadroom));
      if (message && message->target == kStation6) return message;
    }
    return {};
  }();
  ASSERT_TRUE(advertised);
  EXPECT_TRUE(advertised->is_router);
  EXPECT_EQ(advertised->target_link_layer, link->hardware_address());
}

TEST_F(LinkWithStations, IsAMemberOfTheGroupsOfHostAndStations) {
  constexpr Ipv4Address kOfHost{0xef000001};
  constexpr Ipv4Address kOfStation{0xef000002};
  const auto has = [this](Ipv4Address group) {
    for (const GroupInfo& one : link->groups()) {
      if (one.address == IpAddress(group) && one.state == GroupState::full) return true;
    }
    return false;
  };
  view.groups = {kOfHost};
  bring_up();
  link->set_station_groups({kOfStation}, now);
  grant_joins();
  EXPECT_TRUE(has(kOfHost));
  EXPECT_TRUE(has(kOfStation));
  view.groups = {};
  link->on_host_changed(view, now);
  EXPECT_FALSE(has(kOfHost));
  EXPECT_TRUE(has(kOfStation));
  link->set_station_groups({}, now);
  EXPECT_FALSE(has(kOfStation));
}

}  // namespace
}  // namespace ipoib::link
