// The rows of docs/states.md, "Claim".
#include "link/claims.hpp"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>

#include "link/nd_input.hpp"
#include "tests/unit/link/link_fixture.hpp"
#include "wire/checksum.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::link {
namespace {

using wire::ArpOperation;
using wire::NdMessage;
using wire::NdType;

class ClaimStates : public LinkFixture {
 protected:
  ClaimStates() {
    view.addresses.push_back({kOwn6, 64});
    view.groups = {kOwn6.solicited_node()};
  }
  static inline const HwAddress kOther = hardware(0x33, 3);
  static inline const Ipv6Address kOwn6 = *Ipv6Address::parse("2001:db8::1");
  static inline const Ipv6Address kPeer6 = *Ipv6Address::parse("2001:db8::2");

  [[nodiscard]] wire::Arp claim_of(const HwAddress& claimed, ArpOperation operation) const {
    wire::Arp message = arp_from_peer(operation);
    message.sender_hardware = claimed;
    return message;
  }
  [[nodiscard]] wire::Arp reply_of(const HwAddress& claimed) const {
    return claim_of(claimed, ArpOperation::reply);
  }
  [[nodiscard]] wire::Arp announcement_of(const HwAddress& claimed) const {
    wire::Arp message = claim_of(claimed, ArpOperation::request);
    message.target_protocol = message.sender_protocol;
    return message;
  }
  /// `sender` sends what it may not claim.
  void receive_from(const HwAddress& sender, const wire::Arp& message,
                    std::optional<Gid> group = {}) {
    receive(sent_by(sender, datagram(arp_frame(message), group)));
  }
  [[nodiscard]] NdMessage advertisement(const std::optional<HwAddress>& claimed) const {
    NdMessage made;
    made.type = NdType::neighbour_advertisement;
    made.source = made.target = kPeer6;
    made.destination = kOwn6;
    made.is_solicited = made.overrides = true;
    made.target_link_layer = claimed;
    return made;
  }
  [[nodiscard]] NdMessage solicitation(const HwAddress& claimed) const {
    NdMessage made;
    made.source = kPeer6;
    made.destination = kOwn6.solicited_node();
    made.target = kOwn6;
    made.source_link_layer = claimed;
    return made;
  }
  void receive_from(const HwAddress& sender, const NdMessage& message,
                    std::optional<Gid> group = {}) {
    Frame frame = pool.take();
    frame.window(kHeadroom, wire::NdMessage::kMaxEmitted);
    frame.window(kHeadroom, message.emit(frame.bytes()));
    receive(
        sent_by(sender, datagram(encapsulated(std::move(frame), wire::EtherType::ipv6), group)));
  }
  /// With the link-layer address of the better first hop.
  void receive_redirect(const HwAddress& sender, const HwAddress& target) {
    constexpr std::size_t kBody = 40 + wire::kLinkLayerOptionSize;
    const wire::Ipv6Header header{.source = *Ipv6Address::parse("fe80::99"),
                                  .destination = kOwn6,
                                  .payload_length = kBody,
                                  .next_header = 58,
                                  .hop_limit = 255};
    Frame frame = pool.take();
    frame.window(kHeadroom, wire::Ipv6Header::kSize + kBody);
    header.emit(frame.bytes());
    const MutableBytes body = frame.bytes().subspan(wire::Ipv6Header::kSize);
    ByteWriter out(body);
    out.u8(static_cast<std::uint8_t>(NdType::redirect));
    out.zeros(7);
    out.bytes(kPeer6.bytes());
    out.bytes(kPeer6.bytes());
    out.u8(static_cast<std::uint8_t>(wire::LinkLayerOption::target));
    out.u8(3);
    out.zeros(2);
    out.bytes(target.bytes());
    store_be(body.data() + 2, wire::InternetChecksum()
                                  .add_pseudo_header(header.source, header.destination, 58, kBody)
                                  .add(body)
                                  .value());
    receive(sent_by(sender, datagram(encapsulated(std::move(frame), wire::EtherType::ipv6))));
  }
  [[nodiscard]] std::optional<HwAddress> known(const IpAddress& address = kPeer) const {
    const auto info = link->get(address, now);
    return info ? info->hardware : std::nullopt;
  }
  /// Past the lock time, but reachable.
  void resolve_and_unlock() {
    resolve_peer();
    tick_to(now + config.ageing.lock_time);
    ASSERT_EQ(state_of(kPeer), "reachable");
    forget();
  }
};

TEST_F(ClaimStates, Claim_True) {
  bring_up();
  send(kPeer);
  receive_from(kPeerHw, reply_of(kPeerHw));
  grant_paths();
  EXPECT_EQ(state_of(kPeer), "reachable");
  receive_from(kPeerHw, solicitation(kPeerHw),
               wire::multicast_gid(kOwn6.solicited_node(), kDefaultPKey));
  EXPECT_EQ(state_of(kPeer6), "stale");
  EXPECT_EQ(count(Counter::drop_false_qpn) + count(Counter::drop_false_gid), 0U);
}

TEST_F(ClaimStates, Claim_FalseQpn) {
  bring_up();
  resolve_and_unlock();
  for (const auto operation : {ArpOperation::request, ArpOperation::reply}) {
    receive_from(kPeerHw, claim_of(kOther, operation));
    receive_from(kPeerHw, claim_of(kOther, operation), broadcast());
  }
  receive_from(kPeerHw, announcement_of(kOther), broadcast());
  EXPECT_EQ(count(Counter::drop_false_qpn), 5U);
  receive_from(kPeerHw, advertisement(kOther));
  receive_from(kPeerHw, solicitation(kOther));
  EXPECT_EQ(count(Counter::drop_false_qpn), 7U);
  EXPECT_EQ(known(), kPeerHw);
  EXPECT_EQ(state_of(kPeer6), "gone");
  EXPECT_TRUE(link->to_host().empty()) << "nor does the kernel reply";
  EXPECT_TRUE(sent_arp().empty());
}

TEST_F(ClaimStates, Claim_FalseGid) {
  bring_up();
  resolve_and_unlock();
  const HwAddress other_port{0, kPeerHw.qpn, kOther.gid};
  receive_from(other_port, announcement_of(kPeerHw), broadcast());
  EXPECT_EQ(count(Counter::drop_false_gid), 1U);
  receive_from(other_port, solicitation(kPeerHw),
               wire::multicast_gid(kOwn6.solicited_node(), kDefaultPKey));
  EXPECT_EQ(count(Counter::drop_false_gid), 2U);
  EXPECT_EQ(link->neighbour_count(), 1U);
  receive_from(other_port, reply_of(kPeerHw));
  EXPECT_EQ(count(Counter::drop_false_gid), 2U) << "without a GRH there is nothing to compare";
}

TEST_F(ClaimStates, Claim_FalseQpn_NotStrict) {
  config.strict_arp = false;
  bring_up();
  resolve_and_unlock();
  receive_from(kPeerHw, announcement_of(kOther), broadcast());
  grant_paths(9);
  EXPECT_EQ(known(), kOther);
  EXPECT_EQ(state_of(kPeer), "stale") << "not confirmed: it will be probed";
  receive_from(kPeerHw, solicitation(kOther));
  EXPECT_EQ(known(kPeer6), kOther);
}

TEST_F(ClaimStates, Claim_OfAnotherNode) {
  bring_up();
  receive_redirect(kPeerHw, kOther);
  EXPECT_EQ(state_of(kPeer6), "gone");
  EXPECT_EQ(link->to_host().size(), 1U) << "the kernel decides whether to follow it";
  EXPECT_EQ(count(Counter::drop_false_qpn), 0U);
  receive_redirect(kPeerHw, kPeerHw);
  EXPECT_EQ(known(kPeer6), kPeerHw) << "about itself";
}

TEST_F(ClaimStates, Claim_OfAnotherNode_NotStrict) {
  config.strict_arp = false;
  bring_up();
  receive_redirect(kPeerHw, kOther);
  EXPECT_EQ(known(kPeer6), kOther);
}

TEST_F(ClaimStates, Claim_Confirmation_OfAnotherNode) {
  bring_up();
  receive_from(kPeerHw, solicitation(kPeerHw));
  grant_paths();
  ASSERT_EQ(state_of(kPeer6), "stale");
  receive_from(kOther, advertisement({}));
  EXPECT_EQ(state_of(kPeer6), "stale");
  receive_from(kPeerHw, advertisement({}));
  EXPECT_EQ(state_of(kPeer6), "reachable");
}

TEST_F(ClaimStates, Claim_Reply_NoEntry) {
  bring_up();
  receive_from(kPeerHw, reply_of(kPeerHw));
  receive_from(kPeerHw, reply_of(kPeerHw), broadcast());
  EXPECT_EQ(count(Counter::drop_unsolicited_reply), 2U);
  receive_from(kPeerHw, advertisement(kPeerHw));
  EXPECT_EQ(link->neighbour_count(), 0U);
}

TEST_F(ClaimStates, Claim_Request_NoEntry) {
  bring_up();
  receive_from(kPeerHw, claim_of(kPeerHw, ArpOperation::request), broadcast());
  grant_paths();
  EXPECT_EQ(state_of(kPeer), "stale");
  EXPECT_EQ(sent_arp().size(), 1U);
}

TEST_F(ClaimStates, Claim_Other_Locked) {
  bring_up();
  resolve_peer();
  receive_from(kOther, reply_of(kOther));
  wire::Arp to_others = claim_of(kOther, ArpOperation::request);
  to_others.target_protocol = Ipv4Address(0x0a2c0063);
  receive_from(kOther, to_others, broadcast());
  EXPECT_EQ(count(Counter::drop_locked_address), 2U);
  EXPECT_EQ(known(), kPeerHw) << "the first reply counts";
  receive_from(kPeerHw, reply_of(kPeerHw));
  EXPECT_EQ(count(Counter::drop_locked_address), 2U) << "the same address";
}

TEST_F(ClaimStates, Claim_Other_Unlocked) {
  bring_up();
  resolve_peer();
  now += config.ageing.lock_time;
  receive_from(kOther, reply_of(kOther));
  grant_paths(9);
  EXPECT_EQ(known(), kOther);
  EXPECT_EQ(state_of(kPeer), "reachable");
  receive_from(kPeerHw, reply_of(kPeerHw));
  EXPECT_EQ(known(), kOther) << "it is locked again";
}

TEST_F(ClaimStates, Claim_Other_UnlockedDespiteConfirmations) {
  bring_up();
  resolve_peer();
  for (int i = 0; i < 3; ++i) {
    now += config.ageing.lock_time / 2;
    receive_from(kPeerHw, reply_of(kPeerHw));
  }
  receive_from(kOther, reply_of(kOther));
  EXPECT_EQ(count(Counter::drop_locked_address), 0U);
  EXPECT_EQ(known(), kOther);
}

TEST_F(ClaimStates, Claim_Announcement_Locked) {
  bring_up();
  resolve_peer();
  receive_from(kOther, announcement_of(kOther), broadcast());
  grant_paths(9);
  EXPECT_EQ(known(), kOther);
  EXPECT_EQ(state_of(kPeer), "stale");
  now += 6 * config.ageing.lock_time / 10;
  receive_from(kPeerHw, announcement_of(kPeerHw), broadcast());
  EXPECT_EQ(known(), kPeerHw);
  now += 6 * config.ageing.lock_time / 10;
  wire::Arp reply = announcement_of(kOther);
  reply.operation = ArpOperation::reply;
  receive_from(kOther, reply, broadcast());
  EXPECT_EQ(known(), kPeerHw) << "not an announcement: it has another target";
  reply.target_hardware = kOther;
  receive_from(kOther, reply, broadcast());
  EXPECT_EQ(known(), kOther);
}

TEST_F(ClaimStates, Claim_Request_Locked) {
  bring_up();
  resolve_peer();
  receive_from(kOther, claim_of(kOther, ArpOperation::request), broadcast());
  EXPECT_EQ(known(), kOther);
}

TEST_F(ClaimStates, Claim_Advertisement_Locked) {
  bring_up();
  receive_from(kPeerHw, solicitation(kPeerHw));
  receive_from(kOther, advertisement(kOther));
  EXPECT_EQ(known(kPeer6), kOther);
}

TEST_F(ClaimStates, Claim_OtherThanPinned) {
  for (const bool strict : {true, false}) {
    config.strict_arp = strict;
    bring_up();
    ASSERT_TRUE(link->pin(kPeer, kPeerHw.gid));
    ASSERT_TRUE(link->pin(kPeer6, kPeerHw.gid));
    resolve_and_unlock();
    for (const auto operation : {ArpOperation::request, ArpOperation::reply}) {
      receive_from(kOther, claim_of(kOther, operation));
    }
    receive_from(kOther, announcement_of(kOther), broadcast());
    EXPECT_EQ(count(Counter::drop_pinned_gid), 3U);
    receive_from(kOther, advertisement(kOther));
    receive_from(kOther, solicitation(kOther));
    EXPECT_EQ(count(Counter::drop_pinned_gid), 5U);
    EXPECT_TRUE(link->to_host().empty());
    receive_redirect(kOther, kOther);
    EXPECT_EQ(state_of(kPeer6), "pinned");
    EXPECT_EQ(known(), kPeerHw);
    EXPECT_TRUE(sent_arp().empty()) << "nor is it answered";
    link->shut_down(now);
  }
}

TEST_F(ClaimStates, Claim_PinnedGid) {
  bring_up();
  ASSERT_TRUE(link->pin(kPeer, kPeerHw.gid));
  resolve_and_unlock();
  const HwAddress restarted{0, Qpn(0x99), kPeerHw.gid};
  receive_from(restarted, announcement_of(restarted), broadcast());
  EXPECT_EQ(known(), restarted) << "its daemon has started again";
  EXPECT_EQ(count(Counter::drop_pinned_gid), 0U);
}

TEST_F(ClaimStates, Claim_OtherThanPinned_Meanwhile) {
  view.arp.filter = true;
  bring_up();
  receive_from(kPeerHw, claim_of(kPeerHw, ArpOperation::request), broadcast());
  const auto checks = emitted<ArpReplyCheck>();
  ASSERT_EQ(checks.size(), 1U);
  ASSERT_TRUE(link->pin(kPeer, kOther.gid));
  link->reply_to_arp(checks[0].request, now);
  EXPECT_EQ(link->neighbour_count(), 0U);
  EXPECT_TRUE(sent_arp().empty());
}

TEST(RouterSolicitations, CreateEntriesOnRoutersOnly) {
  NdMessage message;
  message.type = NdType::router_solicitation;
  message.source = *Ipv6Address::parse("2001:db8::2");
  message.destination = *Ipv6Address::parse("ff02::2");
  message.source_link_layer = hardware(0x22, 2);
  for (const bool is_router : {false, true}) {
    HostAddresses host;
    (void)host.update({.is_ipv6_router = is_router});
    const auto update = neighbour_update(message, host, hardware(0x11, 1));
    ASSERT_TRUE(update);
    EXPECT_EQ(update->creates_entry, is_router);
  }
}

TEST(ClaimsLog, NamesTheSenderOnceInAWhile) {
  std::ostringstream text;
  Logger log("link", std::make_shared<spdlog::sinks::ostream_sink_st>(text));
  const Config config;
  Output out;
  const Pins pins(1);
  Claims claims({config, pins, out, log});
  Incoming datagram;
  datagram.source_lid = Lid(7);
  datagram.source_qpn = Qpn(0x33);
  const HwAddress claimed = hardware(0x22, 2);
  TimePoint now{1h};
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(claims.admit(Ipv4Address(0x0a2c0002), claimed, datagram, now));
    now += 100ms;
  }
  EXPECT_EQ(out.counters[Counter::drop_false_qpn], 100U);
  EXPECT_THAT(text.str(), testing::HasSubstr("LID 7, QPN 0x33 says that it has 10.44.0.2 at "));
  const auto lines = [&text] { return std::ranges::count(text.str(), '\n'); };
  EXPECT_EQ(lines(), 1);
  (void)claims.admit(Ipv4Address(0x0a2c0002), claimed, datagram, now);
  EXPECT_EQ(lines(), 2);
  EXPECT_THAT(text.str(), testing::HasSubstr("; dropped 99 before it"));
}

}  // namespace
}  // namespace ipoib::link
