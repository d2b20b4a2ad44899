// Host to fabric: destinations, and drops by reason.
#include "tests/unit/link/link_fixture.hpp"
#include "wire/ipv4.hpp"

namespace ipoib::link {
namespace {

class Transmit : public LinkFixture {
 protected:
  void send_raw(std::vector<std::uint8_t> bytes) {
    Frame frame = pool.take();
    frame.window(kHeadroom, bytes.size());
    std::ranges::copy(bytes, frame.bytes().begin());
    link->from_host({&frame, 1}, now);
    EXPECT_FALSE(frame) << "from_host() takes frames";
  }
  /// The address in the GroupInfo of an MGID.
  [[nodiscard]] std::optional<IpAddress> address_of(const Gid& mgid) const {
    for (const GroupInfo& group : link->groups()) {
      if (group.mgid == mgid) return group.address;
    }
    return std::nullopt;
  }
  void expect_sent_to_group(const Gid& mgid) {
    ASSERT_EQ(link->sends().size(), 1U);
    EXPECT_EQ(link->sends()[0].qpn, kMulticastQpn);
    const auto made = std::ranges::find_if(handles.made, [&](const AddressVector& vector) {
      return vector.global && vector.global->dgid == mgid;
    });
    ASSERT_NE(made, handles.made.end());
    EXPECT_EQ(made->source_path_bits, 0);
  }
};

TEST_F(Transmit, DropsPacketsBeforeTheLinkIsUp) {
  make();
  send(kPeer);
  EXPECT_TRUE(link->sends().empty());
  EXPECT_EQ(count(Counter::drop_link_down), 1U);
  EXPECT_EQ(pool.available(), pool.capacity());
}

TEST_F(Transmit, SendsToResolvedNeighbourWithEncapsulationHeader) {
  bring_up();
  resolve_peer();
  send(kPeer, 100);
  ASSERT_EQ(link->sends().size(), 1U);
  const Outgoing& sent = link->sends()[0];
  EXPECT_EQ(sent.qpn, kPeerHw.qpn);
  EXPECT_EQ(sent.frame.size(), 104U);
  const ConstBytes bytes = sent.frame.bytes();
  EXPECT_EQ((std::vector<std::uint8_t>(bytes.begin(), bytes.begin() + 5)),
            (std::vector<std::uint8_t>{8, 0, 0, 0, 0x45}));
}

TEST_F(Transmit, BatchKeepsItsOrder) {
  bring_up();
  resolve_peer();
  std::vector<Frame> batch;
  for (std::size_t size = 30; size < 40; ++size) batch.push_back(ip_packet(kPeer, kOwnIp, size));
  link->from_host(batch, now);
  ASSERT_EQ(link->sends().size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(link->sends()[i].frame.size(), 34 + i);
  EXPECT_EQ(count(Counter::tx_packets), 11U) << "with the one to resolve the peer";
}

TEST_F(Transmit, LimitedBroadcastGoesToTheBroadcastGroup) {
  bring_up();
  send(Ipv4Address(0xffffffff));
  expect_sent_to_group(broadcast());
}

TEST_F(Transmit, DirectedBroadcastGoesToTheBroadcastGroup) {
  bring_up();
  send(Ipv4Address(0x0a2c00ff));
  expect_sent_to_group(broadcast());
  forget();
  send(Ipv4Address(0x0a2d00ff));
  EXPECT_EQ(state_of(Ipv4Address(0x0a2d00ff)), "incomplete") << "no broadcast address of ours";
  // Now it becomes a broadcast address.
  view.addresses.push_back({Ipv4Address(0x0a2d0001), 24});
  link->on_host_changed(view, now);
  EXPECT_EQ(state_of(Ipv4Address(0x0a2d00ff)), "gone");
  forget();
  send(Ipv4Address(0x0a2d00ff));
  expect_sent_to_group(broadcast());
}

TEST_F(Transmit, PointToPointPrefixesHaveNoBroadcast) {
  view.addresses = {{Ipv4Address(0x0a2c0000), 31}};
  bring_up();
  send(Ipv4Address(0x0a2c0001));
  EXPECT_EQ(state_of(Ipv4Address(0x0a2c0001)), "incomplete");
}

TEST_F(Transmit, MulticastGoesToTheGroupOfItsAddress) {
  bring_up();
  send(kAllNodes);
  expect_sent_to_group(wire::multicast_gid(kAllNodes, kDefaultPKey));
  forget();
  const Ipv4Address mdns(0xe00000fb);
  send(mdns);
  EXPECT_TRUE(link->sends().empty());
  const auto requests = take<JoinRequest>();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].record.join_state, wire::McMemberRecord::kSendOnlyNonMember);
  link->on_response({requests[0].id, group_record(requests[0].record.mgid, 0xc005)}, now);
  expect_sent_to_group(wire::multicast_gid(mdns, kDefaultPKey));
}

TEST_F(Transmit, GroupsOfTheHostAreJoinedToReceive) {
  bring_up();
  const Ipv4Address mdns(0xe00000fb);
  const Gid mgid = wire::multicast_gid(mdns, kDefaultPKey);
  view.groups = {mdns};
  link->on_host_changed(view, now);
  ASSERT_EQ(emitted<JoinRequest>().size(), 1U);
  EXPECT_EQ(emitted<JoinRequest>()[0].record.mgid, mgid);
  EXPECT_EQ(emitted<JoinRequest>()[0].record.join_state, wire::McMemberRecord::kFullMember);
  grant_joins();
  ASSERT_EQ(emitted<AttachGroup>().size(), 1U);
  EXPECT_EQ(emitted<AttachGroup>()[0].mgid, mgid);
  EXPECT_EQ(address_of(mgid), IpAddress(mdns));
  forget();
  send(mdns);
  expect_sent_to_group(mgid);
  receive(datagram(encapsulated(ip_packet(mdns, kPeer)), mgid));
  EXPECT_EQ(link->to_host().size(), 1U);
  forget();
  view.groups.clear();
  link->on_host_changed(view, now);
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(emitted<DetachGroup>().size(), 1U);
  receive(datagram(encapsulated(ip_packet(mdns, kPeer)), mgid));
  EXPECT_EQ(count(Counter::drop_foreign_group), 1U);
}

TEST_F(Transmit, GroupInfoHasTheAddress) {
  bring_up();
  const Ipv6Address kOfSite = *Ipv6Address::parse("ff05::1:3");
  const Ipv4Address mdns(0xe00000fb);
  const Ipv6Address solicited = *Ipv6Address::parse("ff02::1:ff00:77");
  view.groups = {kOfSite};
  link->on_host_changed(view, now);
  send(mdns);
  send(ip_packet(solicited, *Ipv6Address::parse("fe80::1")));
  EXPECT_EQ(address_of(wire::multicast_gid(mdns, kDefaultPKey)), IpAddress(mdns));
  EXPECT_EQ(address_of(wire::multicast_gid(solicited, kDefaultPKey)), IpAddress(solicited));
  EXPECT_EQ(address_of(broadcast()), IpAddress(Ipv4Address(0xffffffff)));
  EXPECT_EQ(address_of(wire::multicast_gid(kAllNodes, kDefaultPKey)), IpAddress(kAllNodes));
  EXPECT_EQ(address_of(wire::multicast_gid(kAllNodesOfIpv6, kDefaultPKey)),
            IpAddress(kAllNodesOfIpv6));
  EXPECT_EQ(address_of(wire::multicast_gid(kOfSite, kDefaultPKey)), IpAddress(kOfSite));
}

TEST_F(Transmit, DropsAreCountedByReason) {
  bring_up();
  send_raw(std::vector<std::uint8_t>(39, 0x60));
  send_raw(std::vector<std::uint8_t>(40, 0x11));
  send_raw({0x45});
  EXPECT_EQ(count(Counter::drop_malformed_packet), 3U);
  send(kOwnIp);
  send(Ipv4Address(0));
  send(Ipv4Address(0x7f000001));
  EXPECT_EQ(count(Counter::drop_bad_destination), 3U);
  EXPECT_TRUE(link->sends().empty());
  EXPECT_EQ(link->neighbour_count(), 0U);
  EXPECT_EQ(pool.available(), pool.capacity());
}

TEST_F(Transmit, OffLinkDestinationsGoToTheGateway) {
  view.rules = {{.family = IpFamily::v4, .table = 254}};
  view.tables = {{.id = 254,
                  .routes = {{.destination = {kOwnIp, 24}, .metric = 0, .hops = {{}}},
                             {.destination = {Ipv4Address(0), 0},
                              .metric = 0,
                              .hops = {{.gateway = kPeer, .weight = 1}}}}}};
  bring_up();
  resolve_peer();
  send(Ipv4Address(0x08080808));
  ASSERT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(link->sends()[0].qpn, kPeerHw.qpn);
  EXPECT_EQ(link->neighbour_count(), 1U);
  forget();
  // Broadcast and multicast have no gateway.
  send(Ipv4Address(0xffffffff));
  expect_sent_to_group(broadcast());
  forget();
  send(kAllNodes);
  expect_sent_to_group(wire::multicast_gid(kAllNodes, kDefaultPKey));
  // The gateway changes.
  view.tables[0].routes[1].hops[0].gateway = Ipv4Address(0x0a2c0003);
  link->on_host_changed(view, now);
  forget();
  send(Ipv4Address(0x08080808));
  EXPECT_EQ(state_of(Ipv4Address(0x0a2c0003)), "incomplete");
}

TEST_F(Transmit, GatewayMayBeOfTheOtherFamily) {
  const Ipv6Address gateway = *Ipv6Address::parse("fe80::1");
  view.rules = {{.family = IpFamily::v4, .table = 254}};
  view.tables = {{.id = 254,
                  .routes = {{.destination = {Ipv4Address(0), 0},
                              .metric = 0,
                              .hops = {{.gateway = gateway, .weight = 1}}}}}};
  bring_up();
  Frame frame = ip_packet(kPeer);
  link->from_host({&frame, 1}, now);
  EXPECT_EQ(state_of(gateway), "incomplete");
}

TEST_F(Transmit, TakesTheHopsThatAreChosen) {
  bring_up();
  std::vector<Frame> batch;
  for (int i = 0; i < 3; ++i) batch.push_back(ip_packet(Ipv4Address(0x08080808)));
  batch[1] = ip_packet(*Ipv6Address::parse("2001:db8::1"), *Ipv6Address::parse("2001:db8::2"));
  batch.push_back(ip_packet(kPeer));
  const Ipv6Address gateway = *Ipv6Address::parse("fe80::1");
  const std::vector<std::optional<IpAddress>> hops{Ipv4Address(0x0a2c0003), gateway, std::nullopt,
                                                   std::nullopt};
  link->from_host(batch, now, hops);
  EXPECT_EQ(state_of(Ipv4Address(0x0a2c0003)), "incomplete");
  EXPECT_EQ(state_of(gateway), "incomplete");
  EXPECT_EQ(state_of(Ipv4Address(0x08080808)), "incomplete") << "the link's own choice";
  EXPECT_EQ(state_of(kPeer), "incomplete");
}

TEST_F(Transmit, AChosenHopDoesNotMakeAPacketValid) {
  bring_up();
  Frame frame = pool.take();
  frame.window(kHeadroom, 10);
  std::ranges::fill(frame.bytes(), std::uint8_t{0x45});
  const std::vector<std::optional<IpAddress>> hops{IpAddress(kPeer)};
  link->from_host({&frame, 1}, now, hops);
  EXPECT_EQ(count(Counter::drop_malformed_packet), 1U);
}

TEST_F(Transmit, ResolvesWhatAnOperatorAsksForWithinTheLimits) {
  config.limits.unresolved = 1;
  bring_up();
  EXPECT_EQ(link->resolve(Ipv4Address(), now).error().code, EINVAL);
  EXPECT_TRUE(link->resolve(kPeer, now));
  EXPECT_EQ(state_of(kPeer), "incomplete");
  EXPECT_EQ(link->resolve(Ipv4Address(0x0a2c0003), now).error().code, ENOBUFS);
  EXPECT_TRUE(link->resolve(kPeer, now)) << "again";
}

TEST_F(Transmit, SolicitsNeighboursThatTheHostAsksFor) {
  config.reports_neighbours = true;
  bring_up();
  link->solicit(kPeer, now);
  EXPECT_EQ(state_of(kPeer), "incomplete");
  EXPECT_EQ(link->sends().size(), 1U);
  EXPECT_TRUE(link->known_neighbours().empty());
  resolve_peer();
  ASSERT_FALSE(link->known_neighbours().empty());
  EXPECT_EQ(link->known_neighbours()[0], (KnownNeighbour{kPeer, kPeerHw, false}));
}

TEST_F(Transmit, SolicitsNoAddressThatNoNeighbourCanHave) {
  bring_up();
  link->solicit(kOwnIp, now);
  link->solicit(Ipv4Address(0xe0000001), now);
  link->solicit(Ipv4Address(0x0a2c00ff), now);
  EXPECT_TRUE(link->sends().empty());
  EXPECT_EQ(link->neighbour_count(), 0U);
}

TEST_F(Transmit, ReportsNoNeighboursUnlessTheyAreWanted) {
  bring_up();
  resolve_peer();
  EXPECT_TRUE(link->known_neighbours().empty());
}

TEST_F(Transmit, MissingGroupFallsBackToRoutersUnlessItIsLocal) {
  bring_up();
  constexpr Ipv4Address kLocal{0xe00000fb};  // 224.0.0.251
  constexpr Ipv4Address kNext{0xe0000101};   // 224.0.1.1: outside of 224.0.0.0/24
  constexpr Ipv4Address kAdministered{0xefffff01};
  for (const Ipv4Address group : {kLocal, kNext, kAdministered}) send(group);
  const auto asked = take<JoinRequest>();
  ASSERT_EQ(asked.size(), 3U);
  for (const JoinRequest& join : asked) {
    link->on_response({join.id, SaFailure(wire::SaStatus::insufficient_components)}, now);
  }
  EXPECT_EQ(count(Counter::multicast_unheard), 1U);
  EXPECT_EQ(count(Counter::multicast_by_routers), 2U);
}

class TwoRouters : public LinkFixture {
 protected:
  TwoRouters() {
    view.rules = {{.family = IpFamily::v4, .table = 254}};
    for (const Ipv4Address gateway : {kFirst, kSecond}) {
      routes.push_back({.destination = {Ipv4Address(0), 0},
                        .metric = 0,
                        .hops = {{.gateway = gateway, .weight = 1}}});
    }
    view.tables = {{.id = 254, .routes = routes}};
  }
  void learn(Ipv4Address gateway) {
    wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
    reply.sender_protocol = gateway;
    receive_arp(reply);
    grant_paths();
  }
  static constexpr Ipv4Address kFirst{0x0a2c00fe};
  static constexpr Ipv4Address kSecond{0x0a2c00fd};
  static constexpr Ipv4Address kFar{0x08080808};
  std::vector<HostRoute> routes;
};

TEST_F(TwoRouters, ADeadOneIsReplacedByTheOther) {
  bring_up();
  send(kFar);
  learn(kFirst);
  EXPECT_EQ(state_of(kFirst), "reachable");
  EXPECT_EQ(state_of(kSecond), "gone");
  // The peer no longer responds; traffic goes on.
  const TimePoint end = now + 2min;
  while (now < end && state_of(kFirst) != "failed") {
    tick_to(now + 1s);
    forget();
    send(kFar);
  }
  ASSERT_EQ(state_of(kFirst), "failed");
  forget();
  send(kFar);
  EXPECT_EQ(state_of(kSecond), "incomplete");
  EXPECT_TRUE(link->to_host().empty()) << "no error: there is another router";
  learn(kSecond);
  forget();
  tick_to(now + 10s);
  EXPECT_EQ(state_of(kFirst), "failed") << "not forgotten while there is another router";
  forget();
  send(kFar);
  ASSERT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(state_of(kFirst), "failed") << "not tried while another one responds";
  wire::Arp request = arp_from_peer(wire::ArpOperation::request);
  request.sender_protocol = kFirst;
  receive_arp(request);
  grant_paths();
  forget();
  send(kFar);
  EXPECT_EQ(state_of(kFirst), "delay") << "it is back";
}

/// The first router is dead from the beginning.
class DeadRouter : public TwoRouters {
 protected:
  /// To several destinations, some of which both routers share.
  void send_flows() {
    for (std::uint32_t i = 0; i < 16; ++i) send(Ipv4Address(kFar.number() + i));
  }
  /// Returns how often the first router has been solicited meanwhile.
  std::size_t use_for(Duration time) {
    std::size_t solicitations = 0;
    for (const TimePoint end = now + time; now < end;) {
      tick_to(now + 1s);
      learn(kSecond);
      for (const wire::Arp& arp : sent_arp())
        solicitations += arp.target_protocol == kFirst ? 1 : 0;
      forget();
      send_flows();
      EXPECT_EQ(link->sends().size(), 16U) << "none waits for the dead router";
      EXPECT_TRUE(link->to_host().empty());
      forget();
    }
    return solicitations;
  }
  void expect_avoided_until_it_responds() {
    bring_up();
    send_flows();
    learn(kSecond);
    tick_to(now + 4s);
    ASSERT_EQ(state_of(kFirst), "failed");
    forget();
    const std::size_t solicitations = use_for(10min);
    EXPECT_GE(solicitations, 10min / config.ageing.gateway_probe);
    EXPECT_LE(solicitations, 10min / config.ageing.gateway_probe + 30s / config.ageing.negative);
    const auto uses = link->get(kFirst, now)->uses;
    learn(kFirst);
    send_flows();
    EXPECT_GT(link->get(kFirst, now)->uses, uses) << "it is back";
  }
};

TEST_F(DeadRouter, OfAMultipathRouteIsAvoidedUntilItResponds) {
  view.tables[0].routes = {routes[0]};
  view.tables[0].routes[0].hops.push_back(routes[1].hops[0]);
  expect_avoided_until_it_responds();
}

TEST_F(DeadRouter, OfARedirectIsAvoidedUntilItResponds) {
  view.tables[0].routes = {routes[1]};
  view.redirects = {{.destination = kFar, .gateway = kFirst}};
  expect_avoided_until_it_responds();
}

TEST_F(DeadRouter, IsForgottenWhenItIsNoLongerAGateway) {
  bring_up();
  send_flows();
  tick_to(now + 4s);
  ASSERT_EQ(state_of(kFirst), "failed");
  view.tables[0].routes = {routes[1]};
  link->on_host_changed(view, now);
  tick_to(now + 10s);
  EXPECT_EQ(state_of(kFirst), "gone");
}

TEST_F(TwoRouters, RulesSeeTheHeadersOfAPacket) {
  view.rules.insert(view.rules.begin(), {.family = IpFamily::v4,
                                         .table = 100,
                                         .protocol = 17,
                                         .source_ports = PortRange{68, 68},
                                         .destination_ports = PortRange{53, 53},
                                         .input = RoutingRule::Input::host});
  view.tables.push_back({.id = 100, .routes = {routes[1]}});
  bring_up();
  const auto packet = [this](Ipv4Address from, std::uint16_t destination) {
    Frame frame = ip_packet(kFar, from);
    frame.bytes()[9] = 17;
    store_be(&frame.bytes()[20], std::uint16_t{68});
    store_be(&frame.bytes()[22], destination);
    return frame;
  };
  send(packet(kOwnIp, 54));
  EXPECT_EQ(state_of(kFirst), "incomplete");
  send(packet(Ipv4Address(0x0a636363), 53));
  EXPECT_EQ(state_of(kSecond), "gone") << "forwarded";
  send(packet(kOwnIp, 53));
  EXPECT_EQ(state_of(kSecond), "incomplete");
}

TEST_F(TwoRouters, AnIpv4PacketOfAnotherHostIsKnownToBeForwarded) {
  view.rules.insert(view.rules.begin(), {.family = IpFamily::v4,
                                         .table = 100,
                                         .input = RoutingRule::Input::host,
                                         .is_inverted = true});
  view.tables.push_back({.id = 100, .routes = {routes[1]}});
  bring_up();
  send(ip_packet(kFar, kOwnIp));
  EXPECT_EQ(state_of(kSecond), "gone");
  send(ip_packet(kFar, Ipv4Address(0x0a636363)));
  EXPECT_EQ(state_of(kSecond), "incomplete");
}

/// A bridge knows the next hop of what it passes on, which may be anything.
TEST_F(Transmit, WhatIsNoIpPacketIsDroppedWhateverItsNextHopIs) {
  bring_up();
  for (const std::uint8_t version : {std::uint8_t{0x40}, std::uint8_t{0x60}}) {
    Frame frame = ip_packet(kPeer, kOwnIp);
    frame.bytes()[0] = version;
    frame.window(kHeadroom, version == 0x60 ? 39 : 84);
    const std::optional<IpAddress> hop = kPeer;
    link->from_host({&frame, 1}, now, {&hop, 1});
  }
  EXPECT_EQ(count(Counter::drop_malformed_packet), 2U);
  EXPECT_EQ(state_of(kPeer), "gone");
}

TEST_F(Transmit, PacketOverTheMtuCausesAnIcmpError) {
  bring_up();
  send(kPeer, 2045);
  ASSERT_EQ(link->to_host().size(), 1U);
  const auto header = wire::Ipv4Header::parse(std::as_const(link->to_host()[0]).bytes());
  ASSERT_TRUE(header);
  EXPECT_EQ(header->destination, kOwnIp);
  EXPECT_EQ(header->protocol, 1);
  EXPECT_EQ(count(Counter::drop_packet_too_big), 1U);
  EXPECT_EQ(count(Counter::too_big_answers), 1U);
}

TEST_F(Transmit, PathMtuIsRespected) {
  bring_up();
  send(kPeer);
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  grant_paths(7, 3);
  forget();
  send(kPeer, 1020);
  EXPECT_EQ(link->sends().size(), 1U);
  send(kPeer, 1021);
  EXPECT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(count(Counter::drop_path_mtu_exceeded), 1U);
}

TEST_F(Transmit, PathMtuIsReportedToTheHost) {
  bring_up();
  send(kPeer, 2000);
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  grant_paths(7, 3);
  ASSERT_EQ(link->to_host().size(), 1U) << "for the parked packet";
  const ConstBytes reply = std::as_const(link->to_host()[0]).bytes();
  const auto header = wire::Ipv4Header::parse(reply);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, kPeer);
  EXPECT_EQ(header->destination, kOwnIp);
  EXPECT_EQ(load_be<std::uint16_t>(&reply[20]), 0x0304) << "fragmentation needed";
  EXPECT_EQ(load_be<std::uint16_t>(&reply[26]), 1020) << "without the encapsulation header";
  EXPECT_EQ(reply[28], 0x45) << "quotes the packet";
  EXPECT_EQ(count(Counter::too_big_answers), 1U);
  forget();
  send(kPeer, 2000);
  EXPECT_EQ(link->to_host().size(), 1U) << "for each further packet";
}

TEST_F(Transmit, ThousandPacketsCauseOneArpAndOnePathRequest) {
  bring_up();
  for (int i = 0; i < 1000; ++i) send(kPeer);
  EXPECT_EQ(sent_arp().size(), 1U);
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  for (int i = 0; i < 1000; ++i) send(kPeer);
  EXPECT_EQ(emitted<PathRequest>().size(), 1U);
  forget();
}

TEST_F(Transmit, ParkedFramesAreLimited) {
  config.limits.parked = 20;
  config.limits.parked_bytes_per_neighbour = 3 * kParkedPacket;
  bring_up();
  for (std::uint32_t i = 0; i < 10; ++i) {
    for (int j = 0; j < 4; ++j) send(Ipv4Address(0x0a2c0010 + i));
  }
  EXPECT_EQ(count(Counter::drop_parked_total_limit) + count(Counter::drop_parked_limit), 20U);
  EXPECT_GT(count(Counter::drop_parked_total_limit), 0U);
  EXPECT_GT(count(Counter::drop_parked_limit), 0U);
  forget();
  EXPECT_EQ(pool.capacity() - pool.available(), 20U);
  tick_to(now + 20s);
  EXPECT_EQ(count(Counter::drop_neighbour_failed), 20U);
}

TEST_F(Transmit, UnresolvedNeighboursAreLimited) {
  config.limits.unresolved = 5;
  bring_up();
  for (std::uint32_t i = 0; i < 8; ++i) send(Ipv4Address(0x0a2c0010 + i));
  EXPECT_EQ(link->neighbour_count(), 5U);
  EXPECT_EQ(count(Counter::drop_unresolved_limit), 3U);
}

TEST_F(Transmit, BroadcastRequestsAreLimited) {
  config.limits.solicitations = 40;
  bring_up();
  const TimePoint began = now;
  for (std::uint32_t i = 0; i < 200; ++i) send(Ipv4Address(0x0a2d0000 + i));
  EXPECT_EQ(sent_arp().size(), 5U) << "the burst for new neighbours";
  EXPECT_GT(count(Counter::drop_solicitation_limit), 100U);
  tick_to(began + 10s);
  EXPECT_LE(sent_arp().size(), 5U + 10U * 30U);
  EXPECT_GE(sent_arp().size(), 20U) << "later ones are delayed";
}

TEST_F(Transmit, FullCacheEvictsFailedThenIdleButNeverPermanentEntries) {
  config.limits.neighbours = 3;
  config.ageing.negative = 1h;
  bring_up();
  const Ipv4Address fixed(0x0a2c0020);
  const Ipv4Address failed(0x0a2c0030);
  ASSERT_TRUE(link->set_permanent(fixed, hardware(0x77, 7), now));
  send(failed);
  tick_to(now + 5s);
  ASSERT_EQ(state_of(failed), "failed");
  resolve_peer();
  ASSERT_EQ(link->neighbour_count(), 3U);
  send(Ipv4Address(0x0a2c0040));
  EXPECT_EQ(state_of(failed), "gone");
  EXPECT_EQ(state_of(kPeer), "reachable");
  send(Ipv4Address(0x0a2c0041));
  EXPECT_EQ(state_of(kPeer), "gone") << "idle, no parked frames";
  send(Ipv4Address(0x0a2c0042));
  EXPECT_EQ(count(Counter::drop_neighbour_limit), 1U)
      << "only permanent entries and ones with parked frames are left";
  EXPECT_EQ(state_of(fixed), "permanent");
  EXPECT_EQ(count(Counter::neighbours_evicted), 2U);
}

/// In a full and large cache, an entry may be evicted between its look-ahead and its use.
TEST_F(Transmit, EntriesErasedWithinABatchAreNotUsed) {
  constexpr std::uint32_t kPeers = 600;
  constexpr std::uint32_t kFirst = 0x0a2d0000;
  view.addresses = {{kOwnIp, 8}};
  config.limits.neighbours = kPeers;
  config.limits.paths_per_source = kPeers;
  bring_up();
  const auto to = [&](std::uint32_t i) { return ip_packet(Ipv4Address(kFirst + i), kOwnIp, 28); };
  const auto resolve = [&](std::uint32_t i) {
    wire::Arp request = arp_from_peer(wire::ArpOperation::request);
    request.sender_hardware = hardware(100 + i, 0x1000 + i);
    request.sender_protocol = Ipv4Address(kFirst + i);
    receive_arp(request);
    grant_paths();
  };
  for (std::uint32_t i = 0; i < kPeers; ++i) resolve(i);
  EXPECT_EQ(link->neighbour_count(), kPeers);
  forget();
  // Each new neighbour evicts the entry that has been stale for longest.
  std::vector<Frame> batch;
  for (std::uint32_t i = 0; i < 40; ++i) batch.push_back(to(kPeers + i)), batch.push_back(to(i));
  link->from_host(batch, now);
  std::vector<std::uint32_t> sent;
  for (const Outgoing& out : link->sends()) {
    const ConstBytes bytes = out.frame.bytes();
    if (wire::parse_encapsulation(bytes) != wire::EtherType::ipv4) continue;
    const std::uint32_t i = load_be<std::uint32_t>(bytes.data() + 20) - kFirst;
    EXPECT_EQ(out.qpn, Qpn(100 + i));
    sent.push_back(i);
  }
  EXPECT_TRUE(std::ranges::is_sorted(sent));
  EXPECT_GT(count(Counter::neighbours_evicted), 40U);
  for (const std::uint32_t i : sent) EXPECT_NE(state_of(Ipv4Address(kFirst + i)), "gone");
  EXPECT_EQ(link->neighbour_count(), kPeers);
}

TEST_F(Transmit, MembershipReportsOfTheHostAnnounceNewGroups) {
  bring_up();
  Frame packet = ip_packet(Ipv4Address(0xe0000016), kOwnIp);
  send(std::move(packet));
  EXPECT_TRUE(emitted<HostGroupsChanged>().empty()) << "no report";
  Frame report = ip_packet(Ipv4Address(0xe0000016), kOwnIp);
  report.bytes()[9] = 2;  // IGMP
  send(std::move(report));
  EXPECT_EQ(emitted<HostGroupsChanged>().size(), 1U);
}

}  // namespace
}  // namespace ipoib::link
