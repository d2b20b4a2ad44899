// ARP requests and solicitations that name GIDs at random use up their own limits only: the host's
// packets to a new neighbour take the usual steps.
#include <set>

#include "tests/unit/link/link_fixture.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::link {
namespace {

class Starvation : public LinkFixture {
 protected:
  static inline const Ipv6Address kOwnIpv6 = *Ipv6Address::parse("fe80::1");

  Starvation() {
    view.addresses = {{kOwnIp, 8}, {kOwnIpv6, 64}};
    config.limits.neighbours = 2000;
  }
  [[nodiscard]] static Ipv4Address address(std::uint32_t i) { return Ipv4Address(0x0a2d0000 + i); }
  [[nodiscard]] static Ipv6Address address6(std::uint32_t i) {
    Ipv6Address::Bytes bytes = kOwnIpv6.bytes();
    store_be(bytes.data() + 8, i + 0x100);
    return Ipv6Address(bytes);
  }
  /// Claims an address, by unicast and without a GRH, which would show that the GID is false.
  [[nodiscard]] Incoming forged(Frame&& frame, Lid source) {
    Incoming incoming = datagram(std::move(frame));
    incoming.source_lid = source;
    return incoming;
  }
  void forge_request(std::uint32_t i, Lid source) {
    wire::Arp message = arp_from_peer(wire::ArpOperation::request);
    message.sender_protocol = address(i);
    message.sender_hardware.gid = port_gid(0x1000 + i);
    receive(forged(arp_frame(message), source));
  }
  /// A solicitation, and the response of the host's kernel to it.
  void forge_solicitation(std::uint32_t i, Lid source) {
    wire::NdMessage message;
    message.source = address6(i);
    message.destination = message.target = kOwnIpv6;
    message.source_link_layer = HwAddress{0, kPeerHw.qpn, port_gid(0x1000 + i)};
    const std::size_t before = link->to_host().size();
    receive(forged(encapsulated(frame_of(message), wire::EtherType::ipv6), source));
    if (link->to_host().size() == before) return;
    link->to_host().clear();
    wire::NdMessage response;
    response.type = wire::NdType::neighbour_advertisement;
    response.is_solicited = true;
    response.source = response.target = kOwnIpv6;
    response.destination = address6(i);
    send(frame_of(response));
  }
  [[nodiscard]] Frame frame_of(const wire::NdMessage& message) {
    Frame frame = pool.take();
    frame.window(kHeadroom, 512);
    frame.window(kHeadroom, message.emit(frame.bytes()));
    return frame;
  }
  /// As many ports as LIDs, each of which stays below the limit of one.
  [[nodiscard]] static Lid port_of(std::uint32_t i) {
    return Lid(static_cast<std::uint16_t>(1000 + i));
  }
  [[nodiscard]] std::size_t parked() const {
    std::size_t frames = 0;
    for (const NeighbourInfo& entry : link->list({}, 10'000, now).entries) frames += entry.parked;
    return frames;
  }
  /// The table has room for the peer, which the host uses, and 39 others. Sources are not limited.
  void bring_up_with_a_small_table() {
    config.limits.neighbours = 40;
    config.limits.pending = 1000;
    config.limits.paths_per_source = 100'000;
    bring_up();
    resolve_peer();
  }
  /// The host sends packets to the peer, which responds; its path is requested at once.
  void expect_peer_resolves() {
    const std::uint64_t drops = count(Counter::drop_parked_total_limit);
    for (std::size_t i = 0; i < config.limits.parked_first; ++i) send(kPeer);
    receive_arp(arp_from_peer(wire::ArpOperation::reply));
    const auto requests = take<PathRequest>();
    ASSERT_EQ(requests.size(), 1U);
    EXPECT_EQ(requests[0].record.dgid, kPeerHw.gid);
    link->sends().clear();
    link->on_response({requests[0].id, path_record(kPeerHw.gid, 7)}, now);
    EXPECT_EQ(link->sends().size(), config.limits.parked_first);
    EXPECT_EQ(state_of(kPeer), "reachable");
    EXPECT_EQ(count(Counter::drop_parked_total_limit), drops);
    EXPECT_EQ(count(Counter::drop_parked_limit), 0U);
  }
};

TEST_F(Starvation, OnePortIsLimited) {
  bring_up();
  for (std::uint32_t i = 0; i < 2000; ++i) forge_request(i, Lid(9));
  EXPECT_EQ(link->neighbour_count(), config.limits.paths_per_source);
  EXPECT_EQ(count(Counter::drop_source_limit), 2000 - config.limits.paths_per_source);
  EXPECT_EQ(take<PathRequest>().size(), config.limits.path_requests * 3 / 4);
  forge_request(5000, Lid(10));
  EXPECT_EQ(state_of(address(5000)), "resolving") << "other ports are not";
  now += 500ms;
  for (std::uint32_t i = 3000; i < 3100; ++i) forge_request(i, Lid(9));
  EXPECT_EQ(link->neighbour_count(), config.limits.paths_per_source * 3 / 2 + 1);
  expect_peer_resolves();
}

TEST_F(Starvation, ManyPortsLeaveRoomForTheHost) {
  bring_up();
  for (std::uint32_t i = 0; i < 1500; ++i) forge_request(i, port_of(i));
  EXPECT_GE(count(Counter::drop_paths_pending), 900U);
  EXPECT_EQ(link->neighbour_count(), config.limits.pending);
  EXPECT_EQ(parked(), config.limits.parked_replies);
  EXPECT_EQ(count(Counter::drop_reply_limit), config.limits.pending - config.limits.parked_replies);
  EXPECT_EQ(take<PathRequest>().size(), config.limits.path_requests * 3 / 4);
  expect_peer_resolves();
}

TEST_F(Starvation, SolicitationsLeaveRoomForTheHost) {
  bring_up();
  for (std::uint32_t i = 0; i < 1500; ++i) forge_solicitation(i, port_of(i));
  EXPECT_GE(count(Counter::drop_paths_pending), 900U);
  EXPECT_EQ(link->neighbour_count(), config.limits.pending)
      << "the host does not solicit the others";
  EXPECT_EQ(parked(), config.limits.parked_replies);
  EXPECT_EQ(take<PathRequest>().size(), config.limits.path_requests * 3 / 4);
  expect_peer_resolves();
}

TEST_F(Starvation, PathsThatTheHostNeedsAreRequestedFirst) {
  bring_up();
  for (std::uint32_t i = 0; i < 100; ++i) forge_request(i, port_of(i));
  auto forged = take<PathRequest>();
  ASSERT_EQ(forged.size(), 12U);
  // The host sends to some of the strangers whose paths wait, and to more new neighbours than there
  // is room for.
  std::set<Gid> wanted;
  for (std::uint32_t i = 90; i < 100; ++i) {
    send(address(i));
    wanted.insert(port_gid(0x1000 + i));
  }
  auto requests = take<PathRequest>();
  EXPECT_EQ(requests.size(), 4U) << "those that are kept for the host";
  while (requests.size() < wanted.size() && !forged.empty()) {
    link->on_response({forged.back().id, SaFailure(wire::SaStatus::no_records)}, now);
    forged.pop_back();
    for (const PathRequest& next : take<PathRequest>()) requests.push_back(next);
  }
  ASSERT_EQ(requests.size(), wanted.size());
  for (const PathRequest& request : requests) EXPECT_TRUE(wanted.contains(request.record.dgid));
}

TEST_F(Starvation, EntriesOfTheHostAreNotEvictedByRequests) {
  bring_up_with_a_small_table();
  for (std::uint32_t i = 0; i < 30; ++i) {
    send(address(i));
    wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
    reply.sender_protocol = address(i);
    receive_arp(reply);
  }
  tick_to(now + 2min);
  ASSERT_EQ(state_of(address(7)), "stale") << "used, some time ago";
  ASSERT_EQ(link->neighbour_count(), 31U);
  for (std::uint32_t i = 1000; i < 1100; ++i) {
    forge_request(i, port_of(i));
    grant_paths();
  }
  EXPECT_EQ(link->neighbour_count(), 40U);
  EXPECT_EQ(state_of(address(1099)), "stale") << "they evict each other";
  for (std::uint32_t i = 0; i < 30; ++i) EXPECT_EQ(state_of(address(i)), "stale");
  // While they wait for their paths, there is nothing that they may evict.
  for (std::uint32_t i = 2000; i < 2100; ++i) forge_request(i, port_of(i));
  EXPECT_EQ(count(Counter::drop_neighbour_limit), 91U);
  for (std::uint32_t i = 0; i < 30; ++i) EXPECT_EQ(state_of(address(i)), "stale");
  const Ipv4Address other = address(500);
  send(other);
  EXPECT_EQ(state_of(other), "incomplete") << "the host may evict them";
}

TEST_F(Starvation, ConfirmedEntriesThatTheHostDoesNotUseMakeRoom) {
  bring_up_with_a_small_table();
  for (std::uint32_t i = 1000; i < 1039; ++i) {
    wire::Arp message = arp_from_peer(wire::ArpOperation::request);
    message.sender_protocol = address(i);
    receive_arp(message);
    message = arp_from_peer(wire::ArpOperation::reply);
    message.sender_protocol = address(i);
    receive_arp(message);
    ASSERT_EQ(state_of(address(i)), "reachable");
  }
  ASSERT_EQ(link->neighbour_count(), 40U);
  send(address(1000));
  wire::Arp stranger = arp_from_peer(wire::ArpOperation::request);
  stranger.sender_protocol = address(2000);
  receive_arp(stranger);
  EXPECT_EQ(state_of(address(2000)), "stale");
  EXPECT_EQ(state_of(kPeer), "reachable") << "the host has used it";
  EXPECT_EQ(state_of(address(1000)), "reachable") << "and this one, the oldest of the others";
  EXPECT_EQ(count(Counter::drop_neighbour_limit), 0U);
}

TEST_F(Starvation, AwaitedRepliesAreNotLimited) {
  config.limits.paths_per_source = 1;
  config.limits.unresolved = 1000;
  config.limits.solicitations = 8000;
  bring_up();
  for (std::uint32_t i = 0; i < 100; ++i) send(address(i));
  for (std::uint32_t i = 0; i < 100; ++i) {
    wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
    reply.sender_protocol = address(i);
    reply.sender_hardware.gid = port_gid(0x1000 + i);
    receive(forged(arp_frame(reply), Lid(9)));
    EXPECT_EQ(state_of(address(i)), "resolving") << i;
  }
  EXPECT_EQ(count(Counter::drop_source_limit), 0U);
}

TEST_F(Starvation, ProbesLeaveSolicitationsForTheHost) {
  config.ageing.broadcast_probes = 1;
  config.ageing.unicast_probes = 0;
  bring_up();
  resolve_peer();
  tick_to(now + 1min);
  send(kPeer);
  ASSERT_EQ(state_of(kPeer), "delay");
  tick_to(now + config.ageing.delay - 1ns);
  wire::Arp probe = arp_from_peer(wire::ArpOperation::request);
  probe.sender_protocol = Ipv4Address();
  for (int i = 0; i < 1000; ++i) receive_arp(probe), link->sends().clear();
  EXPECT_GT(count(Counter::arp_limited), 0U);
  const std::uint64_t before = count(Counter::arp_requests_broadcast);
  tick_to(now + 1ns);
  EXPECT_EQ(count(Counter::arp_requests_broadcast), before + 1) << "the entry is probed in time";
}

}  // namespace
}  // namespace ipoib::link
