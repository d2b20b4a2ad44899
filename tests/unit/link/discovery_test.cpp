// IPv6 over the link: Neighbour Discovery of next hops, and link-layer options of forwarded
// messages (RFC 4861; RFC 4391, 9.3).
#include "tests/unit/link/link_fixture.hpp"
#include "wire/checksum.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::link {
namespace {

using wire::NdMessage;
using wire::NdType;

Ipv6Address ipv6(const char* text) { return *Ipv6Address::parse(text); }

class Discovery : public LinkFixture {
 protected:
  Discovery() {
    view.addresses.push_back({kOwnLinkLocal, 64});
    view.addresses.push_back({kOwnGlobal, 64});
    view.groups = {kOwnGlobal.solicited_node()};
  }

  static inline const Ipv6Address kOwnLinkLocal = ipv6("fe80::1");
  static inline const Ipv6Address kOwnGlobal = ipv6("2001:db8::1");
  static inline const Ipv6Address kPeer6 = ipv6("2001:db8::2");
  static inline const Ipv6Address kRouter = ipv6("fe80::99");
  static inline const Ipv6Address kAllRouters = ipv6("ff02::2");
  static inline const HwAddress kNewPeerHw = hardware(0x33, 3);

  static NdMessage message(NdType type, const Ipv6Address& from, const Ipv6Address& to) {
    NdMessage made;
    made.type = type;
    made.source = from;
    made.destination = to;
    return made;
  }
  static NdMessage solicitation(const Ipv6Address& from, const Ipv6Address& target) {
    NdMessage made = message(NdType::neighbour_solicitation, from, target.solicited_node());
    made.target = target;
    return made;
  }
  /// The peer's solicited advertisement.
  static NdMessage advertisement(const HwAddress& hardware) {
    NdMessage made = message(NdType::neighbour_advertisement, kPeer6, kOwnGlobal);
    made.target = kPeer6;
    made.is_solicited = made.overrides = true;
    made.target_link_layer = hardware;
    return made;
  }
  /// With headroom; `options` follow the fixed part.
  Frame packet_of(const NdMessage& content, std::vector<std::uint8_t> options = {}) {
    Frame frame = pool.take();
    frame.window(kHeadroom, 512);
    const bool fixed = content.type == NdType::neighbour_solicitation ||
                       content.type == NdType::neighbour_advertisement;
    std::size_t size = fixed ? content.emit(frame.bytes()) : emit_other(content, frame.bytes());
    frame.window(kHeadroom, size + options.size());
    std::ranges::copy(options, frame.bytes().begin() + static_cast<std::ptrdiff_t>(size));
    if (!options.empty() || !fixed) emit_ip_header_and_checksum(frame.bytes(), content);
    return frame;
  }
  static std::size_t emit_other(const NdMessage& content, MutableBytes to) {
    ByteWriter out(to.subspan(wire::Ipv6Header::kSize));
    out.u8(static_cast<std::uint8_t>(content.type));
    out.zeros(content.type == NdType::router_advertisement ? 15 : 7);
    if (content.type == NdType::redirect) {
      out.bytes(content.target.bytes());
      out.bytes(content.redirected.bytes());
    }
    const auto option = [&out](std::uint8_t type, const std::optional<HwAddress>& address) {
      if (!address) return;
      out.u8(type);
      out.u8(3);
      out.zeros(2);
      out.bytes(address->bytes());
    };
    option(1, content.source_link_layer);
    option(2, content.target_link_layer);
    return wire::Ipv6Header::kSize + out.written();
  }
  static void emit_ip_header_and_checksum(MutableBytes packet, const NdMessage& content) {
    const MutableBytes body = packet.subspan(wire::Ipv6Header::kSize);
    wire::Ipv6Header{.source = content.source,
                     .destination = content.destination,
                     .payload_length = static_cast<std::uint16_t>(body.size()),
                     .next_header = 58,
                     .hop_limit = 255}
        .emit(packet);
    store_be(body.data() + 2, std::uint16_t{0});
    store_be(body.data() + 2, wire::InternetChecksum()
                                  .add_pseudo_header(content.source, content.destination, 58,
                                                     static_cast<std::uint32_t>(body.size()))
                                  .add(body)
                                  .value());
  }
  /// A message of neighbour discovery, sent by the address that it claims, or by the peer.
  void receive_nd(const NdMessage& content, std::optional<Gid> group = {}) {
    const bool is_advertisement = content.type == NdType::neighbour_advertisement;
    receive_nd_of((is_advertisement ? content.target_link_layer : content.source_link_layer)
                      .value_or(kPeerHw),
                  content, group);
  }
  void receive_nd_of(const HwAddress& sender, const NdMessage& content,
                     std::optional<Gid> group = {}) {
    receive(
        sent_by(sender, datagram(encapsulated(packet_of(content), wire::EtherType::ipv6), group)));
  }
  [[nodiscard]] static Gid mgid(const Ipv6Address& group) {
    return wire::multicast_gid(group, kDefaultPKey);
  }
  [[nodiscard]] static std::optional<NdMessage> read(const Frame& frame, std::size_t skip) {
    return NdMessage::parse(frame.bytes().subspan(skip));
  }
  /// The messages sent since forget(), with their destinations.
  struct SentNd {
    NdMessage message;
    Qpn to;
  };
  [[nodiscard]] std::vector<SentNd> sent_nd() const {
    std::vector<SentNd> messages;
    for (const Outgoing& sent : link->sends()) {
      const auto found = read(sent.frame, wire::kEncapsulationSize);
      if (found) messages.push_back({*found, sent.qpn});
    }
    return messages;
  }
  void send6(const Ipv6Address& to = kPeer6) { send(ip_packet(to, kOwnGlobal)); }
  void resolve_peer6() {
    send6();
    grant_joins();
    receive_nd(advertisement(kPeerHw));
    grant_paths();
    ASSERT_EQ(state_of(kPeer6), "reachable");
    forget();
  }
};

TEST_F(Discovery, NextHopIsSolicitedInItsSolicitedNodeGroup) {
  bring_up();
  send6();
  const auto joins = emitted<JoinRequest>();
  ASSERT_EQ(joins.size(), 1U);
  EXPECT_EQ(joins[0].record.mgid, mgid(ipv6("ff02::1:ff00:2")));
  grant_joins();
  ASSERT_EQ(sent_nd().size(), 1U);
  NdMessage expected = solicitation(kOwnGlobal, kPeer6);
  expected.source_link_layer = link->hardware_address();
  EXPECT_EQ(sent_nd()[0].message, expected);
  EXPECT_EQ(sent_nd()[0].to, kMulticastQpn);
  EXPECT_EQ(state_of(kPeer6), "incomplete");
  EXPECT_EQ(count(Counter::nd_solicitations_multicast), 1U);
}

TEST_F(Discovery, RFC4861_7_2_2_SolicitationHasTheSourceOfThePromptingPacket) {
  bring_up();
  send(ip_packet(kPeer6, kOwnLinkLocal));
  grant_joins();
  tick_to(now + config.ageing.retransmit);
  unsigned solicitations = 0;
  for (const SentNd& sent : sent_nd()) {
    if (sent.message.type != NdType::neighbour_solicitation) continue;
    ++solicitations;
    EXPECT_EQ(sent.message.source, kOwnLinkLocal);
  }
  EXPECT_EQ(solicitations, 2U) << "the repetition has it too";
}

TEST_F(Discovery, SolicitationForAForwardedPacketHasAnAddressOfTheSubnet) {
  bring_up();
  send(ip_packet(kPeer6, ipv6("2001:db8:7::1")));
  grant_joins();
  ASSERT_EQ(sent_nd().size(), 1U);
  EXPECT_EQ(sent_nd()[0].message.source, kOwnGlobal);
}

TEST_F(Discovery, AdvertisementMakesItReachableAndSendsParkedFrames) {
  bring_up();
  send6();
  grant_joins();
  forget();
  receive_nd(advertisement(kPeerHw));
  grant_paths();
  EXPECT_EQ(state_of(kPeer6), "reachable");
  ASSERT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(link->sends()[0].qpn, kPeerHw.qpn);
  EXPECT_EQ(wire::parse_encapsulation(std::as_const(link->sends()[0].frame).bytes()),
            wire::EtherType::ipv6);
}

TEST_F(Discovery, HostWithoutAnAddressDoesNotSolicit) {
  view.addresses = {{kOwnIp, 24}};
  bring_up();
  send6();
  grant_joins();
  EXPECT_TRUE(sent_nd().empty());
  tick_to(now + 10s);
  EXPECT_EQ(count(Counter::nd_solicitations_multicast), 0U);
  forget();
  EXPECT_EQ(pool.available(), pool.capacity());
}

TEST_F(Discovery, AdvertisementsCreateNoEntries) {
  bring_up();
  receive_nd(advertisement(kPeerHw));
  EXPECT_EQ(state_of(kPeer6), "gone");
  EXPECT_EQ(link->to_host().size(), 1U) << "the kernel needs it to detect duplicates";
}

TEST_F(Discovery, UnsolicitedAdvertisementWithOverrideChangesTheAddress) {
  bring_up();
  resolve_peer6();
  NdMessage moved = advertisement(kNewPeerHw);
  moved.destination = kAllNodesOfIpv6;
  moved.is_solicited = false;
  receive_nd(moved, mgid(kAllNodesOfIpv6));
  grant_paths(9);
  EXPECT_EQ(state_of(kPeer6), "stale");
  EXPECT_EQ(link->get(kPeer6, now)->hardware, kNewPeerHw);
}

TEST_F(Discovery, AdvertisementWithoutOverrideMakesTheEntryStale) {
  bring_up();
  resolve_peer6();
  NdMessage other = advertisement(kNewPeerHw);
  other.overrides = false;
  receive_nd(other);
  EXPECT_EQ(state_of(kPeer6), "stale");
  EXPECT_EQ(link->get(kPeer6, now)->hardware, kPeerHw);
}

TEST_F(Discovery, AdvertisementWithoutAddressConfirmsTheKnownOne) {
  bring_up();
  resolve_peer6();
  tick_to(now + 2min);
  ASSERT_EQ(state_of(kPeer6), "stale");
  NdMessage bare = advertisement(kPeerHw);
  bare.target_link_layer.reset();
  bare.is_solicited = false;
  receive_nd(bare);
  EXPECT_EQ(state_of(kPeer6), "stale");
  bare.is_solicited = true;
  receive_nd(bare);
  EXPECT_EQ(state_of(kPeer6), "reachable");
}

TEST_F(Discovery, SolicitationForUsCreatesAnEntryAndTheHostReplies) {
  bring_up();
  NdMessage sent = solicitation(kPeer6, kOwnGlobal);
  sent.source_link_layer = kPeerHw;
  receive_nd(sent, mgid(kOwnGlobal.solicited_node()));
  grant_paths();
  EXPECT_EQ(state_of(kPeer6), "stale");
  ASSERT_EQ(link->to_host().size(), 1U);
  sent.source_link_layer.reset();
  EXPECT_EQ(read(link->to_host()[0], 0), sent) << "without the option, with a new checksum";
  forget();

  NdMessage reply = message(NdType::neighbour_advertisement, kOwnGlobal, kPeer6);
  reply.target = kOwnGlobal;
  reply.is_solicited = reply.overrides = true;
  send(packet_of(reply));
  ASSERT_EQ(sent_nd().size(), 1U);
  reply.target_link_layer = link->hardware_address();
  EXPECT_EQ(sent_nd()[0].message, reply);
  EXPECT_EQ(sent_nd()[0].to, kPeerHw.qpn);
}

TEST_F(Discovery, SolicitationForOthersCreatesNoEntry) {
  bring_up();
  NdMessage sent = solicitation(kPeer6, ipv6("2001:db8::3:0:1"));
  sent.source_link_layer = kPeerHw;
  receive_nd(sent, mgid(kOwnGlobal.solicited_node()));
  EXPECT_EQ(state_of(kPeer6), "gone");
}

TEST_F(Discovery, DuplicateAddressDetectionCreatesNoEntry) {
  bring_up();
  const NdMessage sent = solicitation(Ipv6Address{}, kOwnGlobal);
  receive_nd(sent, mgid(kOwnGlobal.solicited_node()));
  EXPECT_EQ(link->neighbour_count(), 0U);
  ASSERT_EQ(link->to_host().size(), 1U) << "the kernel defends the address";
  forget();
  view.groups.push_back(kPeer6.solicited_node());
  link->on_host_changed(view, now);
  grant_joins();
  forget();
  const NdMessage own = solicitation(Ipv6Address{}, kPeer6);
  send(packet_of(own));
  ASSERT_EQ(sent_nd().size(), 1U);
  EXPECT_EQ(sent_nd()[0].message, own) << "without an option";
}

TEST_F(Discovery, RouterAdvertisementIsLearntAndKeepsItsOtherOptions) {
  bring_up();
  NdMessage router = message(NdType::router_advertisement, kRouter, kAllNodesOfIpv6);
  router.source_link_layer = kPeerHw;
  const std::vector<std::uint8_t> mtu_option{5, 1, 0, 0, 0, 0, 5, 0};
  receive(datagram(encapsulated(packet_of(router, mtu_option), wire::EtherType::ipv6),
                   mgid(kAllNodesOfIpv6)));
  grant_paths();
  EXPECT_EQ(state_of(kRouter), "stale");
  ASSERT_EQ(link->to_host().size(), 1U);
  router.source_link_layer.reset();
  EXPECT_EQ(read(link->to_host()[0], 0), router);
  const ConstBytes left = std::as_const(link->to_host()[0]).bytes();
  EXPECT_TRUE(std::ranges::equal(left.last(8), mtu_option));
}

TEST_F(Discovery, RedirectsAreAnnouncedOnceASecond) {
  bring_up();
  NdMessage redirect = message(NdType::redirect, kRouter, kOwnGlobal);
  redirect.target = redirect.redirected = kPeer6;
  for (int i = 0; i < 50; ++i) receive_nd(redirect);
  EXPECT_EQ(take<RedirectReceived>().size(), 1U);
  tick_to(now + 1s);
  EXPECT_EQ(take<RedirectReceived>().size(), 1U) << "the host may have followed only the last one";
}

TEST_F(Discovery, RedirectIsLearntUnlessStrict) {
  config.strict_arp = false;
  bring_up();
  NdMessage redirect = message(NdType::redirect, kRouter, kOwnGlobal);
  redirect.target = redirect.redirected = kPeer6;
  redirect.target_link_layer = kPeerHw;
  receive_nd(redirect);
  grant_paths();
  EXPECT_EQ(state_of(kPeer6), "stale");
  redirect.target_link_layer.reset();
  ASSERT_EQ(link->to_host().size(), 1U);
  EXPECT_EQ(read(link->to_host()[0], 0), redirect);
}

/// The host redirects others to a neighbour whose address is not known yet.
TEST_F(Discovery, RedirectToAnUnresolvedNeighbourIsSentAsItIs) {
  bring_up();
  resolve_peer6();
  const Ipv6Address unknown = *Ipv6Address::parse("fe80::99");
  send(ip_packet(unknown, kOwnLinkLocal));
  ASSERT_EQ(state_of(unknown), "incomplete");
  forget();
  NdMessage redirect = message(NdType::redirect, kOwnLinkLocal, kPeer6);
  redirect.target = redirect.redirected = unknown;
  send(packet_of(redirect));
  ASSERT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(read(link->sends()[0].frame, kHeadroom), redirect);
}

TEST_F(Discovery, RedirectToARouterHasTheAddressOfTheRouter) {
  bring_up();
  resolve_peer6();
  send(ip_packet(kRouter, kOwnLinkLocal));
  NdMessage advertised = message(NdType::router_advertisement, kRouter, kAllNodesOfIpv6);
  advertised.source_link_layer = kNewPeerHw;
  receive_nd(advertised);
  grant_paths();
  forget();
  NdMessage redirect = message(NdType::redirect, kOwnLinkLocal, kPeer6);
  redirect.target = kRouter;
  redirect.redirected = ipv6("2001:db8:1::1");
  send(packet_of(redirect));
  redirect.target_link_layer = kNewPeerHw;
  ASSERT_EQ(sent_nd().size(), 1U);
  EXPECT_EQ(sent_nd()[0].message, redirect);
}

TEST_F(Discovery, HostRouterMessagesGetLinkLayerOptions) {
  bring_up();
  resolve_peer6();
  NdMessage solicited = message(NdType::router_solicitation, kOwnLinkLocal, kAllRouters);
  send(packet_of(solicited));
  NdMessage advertised = message(NdType::router_advertisement, kOwnLinkLocal, kAllNodesOfIpv6);
  send(packet_of(advertised));
  NdMessage redirect = message(NdType::redirect, kOwnLinkLocal, kPeer6);
  redirect.target = redirect.redirected = kPeer6;
  send(packet_of(redirect));
  grant_joins();
  // In the order of sending: send-only groups are joined first.
  advertised.source_link_layer = solicited.source_link_layer = link->hardware_address();
  redirect.target_link_layer = kPeerHw;
  std::vector<NdMessage> found;
  for (const SentNd& sent : sent_nd()) found.push_back(sent.message);
  EXPECT_EQ(found, (std::vector{advertised, redirect, solicited}));
}

TEST_F(Discovery, MessageWithoutRoomIsSentWithoutTheOption) {
  bring_up();
  NdMessage advertised = message(NdType::router_advertisement, kOwnLinkLocal, kAllNodesOfIpv6);
  Frame large = packet_of(advertised, {5, 1, 0, 0, 0, 0, 5, 0});
  large.window(kHeadroom, 2040);
  for (std::size_t at = 56; at < 2040; at += 248) {
    large.bytes()[at] = 253;  // for experiments (RFC 4727)
    large.bytes()[at + 1] = 31;
  }
  emit_ip_header_and_checksum(large.bytes(), advertised);
  ASSERT_TRUE(read(large, 0));
  send(std::move(large));
  ASSERT_EQ(sent_nd().size(), 1U);
  EXPECT_EQ(sent_nd()[0].message, advertised);
}

TEST_F(Discovery, InvalidMessagesAreDropped) {
  bring_up();
  Frame broken = packet_of(advertisement(kPeerHw));
  broken.bytes()[wire::Ipv6Header::kSize + 2] ^= 1;
  receive(datagram(encapsulated(std::move(broken), wire::EtherType::ipv6)));
  EXPECT_EQ(count(Counter::drop_malformed_nd), 1U);
  NdMessage ours = advertisement(link->hardware_address());
  resolve_peer6();
  receive_nd(ours);
  EXPECT_EQ(link->get(kPeer6, now)->hardware, kPeerHw) << "another node cannot have our address";
}

TEST_F(Discovery, SilentNeighbourIsProbedAndFails) {
  bring_up();
  resolve_peer6();
  tick_to(now + 2min);
  ASSERT_EQ(state_of(kPeer6), "stale");
  send6();
  ASSERT_EQ(state_of(kPeer6), "delay");
  forget();
  tick_to(now + config.ageing.delay + 20s);
  grant_paths();
  grant_joins();
  std::vector<Qpn> asked;
  for (const SentNd& sent : sent_nd()) asked.push_back(sent.to);
  EXPECT_EQ(asked, (std::vector{kPeerHw.qpn, kPeerHw.qpn, kPeerHw.qpn, kMulticastQpn, kMulticastQpn,
                                kMulticastQpn}));
  EXPECT_EQ(state_of(kPeer6), "gone");
}

TEST_F(Discovery, NewAddressesAreAdvertisedToAllNodes) {
  bring_up();
  tick_to(now + 1min);
  forget();
  const Ipv6Address added = ipv6("2001:db8::abcd");
  view.addresses.push_back({added, 64});
  view.is_ipv6_router = true;
  link->on_host_changed(view, now);
  tick_to(now + 1min);
  NdMessage expected = message(NdType::neighbour_advertisement, added, kAllNodesOfIpv6);
  expected.target = added;
  expected.is_router = expected.overrides = true;
  expected.target_link_layer = link->hardware_address();
  ASSERT_EQ(sent_nd().size(), config.ageing.announcements);
  EXPECT_EQ(sent_nd()[0].message, expected);
  EXPECT_EQ(sent_nd()[0].to, kMulticastQpn);
}

TEST_F(Discovery, NewQueuePairIsAdvertised) {
  bring_up();
  tick_to(now + 1min);
  forget();
  link->on_queue_pair(Qpn(0x77), now);
  tick_to(now + 1min);
  ASSERT_EQ(sent_nd().size(), 2U * config.ageing.announcements) << "two addresses";
  EXPECT_EQ(sent_nd()[0].message.target_link_layer->qpn, Qpn(0x77));
}

TEST_F(Discovery, GroupsGoToTheirMgid) {
  bring_up();
  send6(ipv6("ff05::1:3"));
  ASSERT_EQ(emitted<JoinRequest>().size(), 1U);
  EXPECT_EQ(emitted<JoinRequest>()[0].record.mgid, mgid(ipv6("ff05::1:3")));
  grant_joins();
  ASSERT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(link->sends()[0].qpn, kMulticastQpn);
}

TEST_F(Discovery, MissingGroupFallsBackToRoutersUnlessLinkLocal) {
  bring_up();
  send6(ipv6("ff02::1:3"));
  send6(ipv6("ff0e::1:4"));
  const auto asked = take<JoinRequest>();
  ASSERT_EQ(asked.size(), 2U);
  for (const JoinRequest& join : asked) {
    link->on_response({join.id, SaFailure(wire::SaStatus::insufficient_components)}, now);
  }
  EXPECT_EQ(count(Counter::multicast_unheard), 1U);
  EXPECT_EQ(count(Counter::multicast_by_routers), 1U);
  const auto routers = take<JoinRequest>();
  ASSERT_EQ(routers.size(), 1U);
  EXPECT_EQ(routers[0].record.mgid, mgid(kAllRouters));
}

TEST_F(Discovery, PacketOverTheMtuCausesAnIcmpv6Error) {
  bring_up();
  send(ip_packet(kPeer6, kOwnGlobal, 2045));
  EXPECT_EQ(count(Counter::drop_packet_too_big), 1U);
  ASSERT_EQ(link->to_host().size(), 1U);
  EXPECT_EQ(link->to_host()[0].bytes()[0] >> 4, 6);
  EXPECT_EQ(link->to_host()[0].bytes()[wire::Ipv6Header::kSize], 2) << "packet too big";
}

TEST_F(Discovery, OwnAndUnspecifiedAddressesAreNoNeighbours) {
  bring_up();
  send6(kOwnLinkLocal);
  send6(Ipv6Address{});
  send6(ipv6("::1"));
  EXPECT_EQ(count(Counter::drop_bad_destination), 3U);
  EXPECT_EQ(link->neighbour_count(), 0U);
}

}  // namespace
}  // namespace ipoib::link
