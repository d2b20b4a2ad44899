// Replies to ARP requests, and source addresses of our own, by the host's policy: arp_ignore,
// arp_filter, arp_announce and proxy_arp.
#include "link/arp_input.hpp"
#include "tests/unit/link/link_fixture.hpp"
#include "wire/ipv4.hpp"

namespace ipoib::link {
namespace {

constexpr Ipv4Address kVirtual{0x0a090909};   ///< on another interface
constexpr Ipv4Address kAnycast{0x0a0a0507};   ///< in a local route of the host
constexpr Ipv4Address kStranger{0x0a636363};  ///< not the host's
constexpr Ipv4Address kElsewhere{0xc0a80001};

class ArpPolicyTest : public LinkFixture {
 protected:
  ArpPolicyTest() { view.local = {{kOwnIp, 32}, {kVirtual, 32}, {Ipv4Address(0x0a0a0000), 16}}; }
  void request(Ipv4Address target, Ipv4Address sender = kPeer) {
    wire::Arp message = arp_from_peer(wire::ArpOperation::request);
    message.target_protocol = target;
    message.sender_protocol = sender;
    receive_arp(message, broadcast());
    grant_paths();
  }
  /// Whether the host replies to a request for the address.
  [[nodiscard]] bool replies(Ipv4Address target, Ipv4Address sender = kPeer) {
    forget();
    request(target, sender);
    const auto sent = sent_arp();
    if (sent.empty()) return false;
    EXPECT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].operation, wire::ArpOperation::reply);
    EXPECT_EQ(sent[0].sender_protocol, target);
    return true;
  }
  void set_policy(const ArpPolicy& policy) {
    view.arp = policy;
    link->on_host_changed(view, now);
  }
};

TEST_F(ArpPolicyTest, RepliesForAllAddressesOfTheHost) {
  bring_up();
  EXPECT_TRUE(replies(kOwnIp));
  EXPECT_TRUE(replies(kVirtual));
  EXPECT_TRUE(replies(kAnycast)) << "ip route add local 10.10.0.0/16 dev lo";
  EXPECT_FALSE(replies(kStranger));
  EXPECT_EQ(state_of(kPeer), "stale") << "packets to it will follow";
}

TEST_F(ArpPolicyTest, Ignore1RepliesForTheInterfaceOnly) {
  bring_up();
  set_policy({.ignore = 1});
  EXPECT_TRUE(replies(kOwnIp));
  EXPECT_FALSE(replies(kVirtual));
  EXPECT_EQ(count(Counter::arp_ignored), 1U);
  EXPECT_TRUE(replies(kOwnIp, kElsewhere));
}

TEST_F(ArpPolicyTest, Ignore2RepliesToTheSameSubnetOnly) {
  bring_up();
  set_policy({.ignore = 2});
  EXPECT_TRUE(replies(kOwnIp));
  EXPECT_FALSE(replies(kOwnIp, kElsewhere));
  EXPECT_FALSE(replies(kVirtual));
  EXPECT_TRUE(replies(kOwnIp, Ipv4Address())) << "a probe";
}

TEST_F(ArpPolicyTest, Ignore3RepliesForAddressesWithoutHostScope) {
  bring_up();
  constexpr Ipv4Address kHostScope{0x0a090910};
  view.local.push_back({kHostScope, 32});
  view.of_larger_scope = {kOwnIp, kVirtual};
  set_policy({.ignore = 3});
  EXPECT_TRUE(replies(kOwnIp));
  EXPECT_TRUE(replies(kVirtual));
  EXPECT_FALSE(replies(kHostScope));
  EXPECT_FALSE(replies(kAnycast)) << "a local route, but no address";
}

TEST_F(ArpPolicyTest, Ignore8RepliesForNone) {
  bring_up();
  set_policy({.ignore = 8});
  EXPECT_FALSE(replies(kOwnIp));
  EXPECT_FALSE(replies(kOwnIp, Ipv4Address())) << "nor to a probe";
  EXPECT_FALSE(replies(kVirtual));
  EXPECT_EQ(state_of(kPeer), "gone") << "no entry without a reply";
  set_policy({.ignore = 4});
  EXPECT_TRUE(replies(kVirtual)) << "reserved values are as 0";
}

TEST_F(ArpPolicyTest, IgnoredRequestsUpdateAnEntry) {
  bring_up();
  set_policy({.ignore = 1});
  send(kPeer);
  request(kVirtual);
  EXPECT_EQ(link->get(kPeer, now)->hardware, kPeerHw);
}

TEST_F(ArpPolicyTest, FilterAsksTheRoutes) {
  bring_up();
  set_policy({.filter = true});
  EXPECT_FALSE(replies(kOwnIp));
  const auto asked = emitted<ArpReplyCheck>();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].request.target_protocol, kOwnIp);
  EXPECT_EQ(state_of(kPeer), "gone");
  link->reply_to_arp(asked[0].request, now);
  grant_paths();
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kOwnIp);
  EXPECT_EQ(sent_arp()[0].target_hardware, kPeerHw);
}

TEST_F(ArpPolicyTest, ProxyAsksTheRoutesAboutOtherTargets) {
  bring_up();
  EXPECT_FALSE(replies(kStranger));
  EXPECT_TRUE(emitted<ArpReplyCheck>().empty()) << "no proxy";
  set_policy({.proxy = true});
  EXPECT_FALSE(replies(kStranger));
  ASSERT_EQ(emitted<ArpReplyCheck>().size(), 1U);
  EXPECT_TRUE(replies(kVirtual)) << "an own address, without a look-up";
  EXPECT_TRUE(emitted<ArpReplyCheck>().empty());
  EXPECT_FALSE(replies(kStranger, Ipv4Address())) << "a probe is not answered by a proxy";
  EXPECT_TRUE(emitted<ArpReplyCheck>().empty());
  wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
  reply.target_protocol = kStranger;
  receive_arp(reply);
  EXPECT_TRUE(emitted<ArpReplyCheck>().empty()) << "not a request";
}

TEST_F(ArpPolicyTest, ProxiedNeighboursAskTheRoutes) {
  bring_up();
  view.proxied = {kStranger};
  link->on_host_changed(view, now);
  EXPECT_FALSE(replies(kStranger));
  ASSERT_EQ(emitted<ArpReplyCheck>().size(), 1U);
  EXPECT_FALSE(replies(kElsewhere));
  EXPECT_TRUE(emitted<ArpReplyCheck>().empty()) << "not proxied";
  EXPECT_FALSE(replies(kStranger, Ipv4Address())) << "a probe is not answered by a proxy";
  EXPECT_TRUE(emitted<ArpReplyCheck>().empty());
}

TEST_F(ArpPolicyTest, RouteLookUpsAreLimited) {
  config.limits.arp_reply_checks = 40;
  bring_up();
  set_policy({.proxy = true});
  for (int i = 0; i < 100; ++i) request(kStranger);
  EXPECT_EQ(emitted<ArpReplyCheck>().size(), 10U) << "a quarter of a second's rate";
  EXPECT_EQ(count(Counter::arp_route_lookups), 10U);
  EXPECT_EQ(count(Counter::arp_limited), 90U);
  now += 25ms;
  request(kStranger);
  EXPECT_EQ(emitted<ArpReplyCheck>().size(), 11U);
}

TEST_F(ArpPolicyTest, RepliesToProbesAreLimited) {
  config.limits.solicitations = 64;
  bring_up();
  for (int i = 0; i < 20; ++i) request(kOwnIp, Ipv4Address());
  EXPECT_EQ(count(Counter::arp_replies_sent), 4U) << "a quarter of the rate, for a quarter second";
  EXPECT_EQ(count(Counter::arp_limited), 16U);
  now += 1s;
  for (int i = 0; i < 20; ++i) request(kOwnIp, Ipv4Address());
  EXPECT_EQ(count(Counter::arp_replies_sent), 8U) << "the bucket holds no more";
}

TEST_F(ArpPolicyTest, ALateAnswerIsIgnoredWhileTheLinkIsDown) {
  bring_up();
  wire::Arp message = arp_from_peer(wire::ArpOperation::request);
  port.active = false;
  link->on_port(port, now);
  link->reply_to_arp(message, now);
  EXPECT_EQ(link->neighbour_count(), 0U);
  EXPECT_TRUE(sent_arp().empty());
}

TEST_F(ArpPolicyTest, ALateAnswerToAnAddressThatTheHostNowHasIsIgnored) {
  bring_up();
  view.addresses.push_back({kPeer, 24});
  link->on_host_changed(view, now);
  forget();
  link->reply_to_arp(arp_from_peer(wire::ArpOperation::request), now);
  EXPECT_EQ(link->neighbour_count(), 0U);
}

// --- The policy is read before it is used -------------------------------------------------------

/// A policy that changes without notice.
class ChangingPolicy : public ArpPolicyTest, public ArpPolicySource {
 protected:
  ChangingPolicy() {
    arp_policy = this;
    view.arp_interface = "ib0";
  }
  [[nodiscard]] std::optional<ArpPolicy> read(const std::string& interface) const override {
    EXPECT_EQ(interface, "ib0");
    ++reads;
    return present;
  }
  void change(const ArpPolicy& policy) {
    now += 2ms;
    present = policy;
  }
  std::optional<ArpPolicy> present = ArpPolicy();
  mutable unsigned reads = 0;
};

TEST_F(ChangingPolicy, IsFollowedByTheNextReply) {
  bring_up();
  EXPECT_TRUE(replies(kVirtual));
  change({.ignore = 1});
  EXPECT_FALSE(replies(kVirtual));
  EXPECT_TRUE(replies(kOwnIp));
  change({.ignore = 8});
  EXPECT_FALSE(replies(kOwnIp));
  change({});
  EXPECT_TRUE(replies(kVirtual));
  change({.filter = true});
  EXPECT_FALSE(replies(kOwnIp));
  EXPECT_EQ(emitted<ArpReplyCheck>().size(), 1U);
}

TEST_F(ChangingPolicy, OfAProxyIsFollowedByTheNextRequest) {
  bring_up();
  request(kStranger);
  EXPECT_TRUE(emitted<ArpReplyCheck>().empty());
  change({.proxy = true});
  now += HostReports::kProxyPolicyAge;
  request(kStranger);
  EXPECT_EQ(emitted<ArpReplyCheck>().size(), 1U);
}

TEST_F(ChangingPolicy, OfOurRequestsIsFollowedByTheNextOne) {
  bring_up();
  change({.announce = 2});
  send(ip_packet(kPeer, kVirtual));
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kOwnIp);
}

TEST_F(ChangingPolicy, IsReadOnceAMillisecondAtMost) {
  bring_up();
  reads = 0;
  for (int i = 0; i < 100; ++i) request(kOwnIp);
  EXPECT_EQ(reads, 1U);
  now += HostReports::kPolicyAge + 1us;
  request(kOwnIp);
  EXPECT_EQ(reads, 2U);
  now += HostReports::kPolicyAge + 1us;
  request(kStranger);
  EXPECT_EQ(reads, 2U) << "only a proxy needs it";
}

TEST_F(ChangingPolicy, StaysWhileItCannotBeRead) {
  bring_up();
  change({.ignore = 8});
  EXPECT_FALSE(replies(kOwnIp));
  now += 2ms;
  present.reset();
  EXPECT_FALSE(replies(kOwnIp)) << "the interface is being renamed";
}

TEST_F(ArpPolicyTest, AHostThatForwardsMayBeAProxyForASingleAddress) {
  bring_up();
  set_policy({.forwards = true});
  request(kStranger);
  EXPECT_EQ(emitted<ArpReplyCheck>().size(), 1U);
  forget();
  request(kStranger, Ipv4Address());
  EXPECT_TRUE(emitted<ArpReplyCheck>().empty()) << "a probe";
}

TEST_F(ArpPolicyTest, KnownProxiedAddressesHaveLookUpsForThemselves) {
  config.limits.arp_reply_checks = 50;
  view.proxied = {kElsewhere};
  bring_up();
  set_policy({.forwards = true});
  for (int i = 0; i < 30; ++i) request(kStranger);
  const auto unknown = emitted<ArpReplyCheck>().size();
  EXPECT_LT(unknown, 10U);
  request(kElsewhere);
  EXPECT_EQ(emitted<ArpReplyCheck>().size(), unknown + 1);
}

TEST_F(ArpPolicyTest, UseOfThePolicyIsReportedOnceASecond) {
  bring_up();
  request(kOwnIp);
  request(kOwnIp);
  EXPECT_EQ(emitted<ArpPolicyUsed>().size(), 1U);
  now += 1s;
  request(kStranger);
  EXPECT_EQ(emitted<ArpPolicyUsed>().size(), 2U) << "proxy_arp";
  request(kOwnIp);
  request(kStranger);
  EXPECT_EQ(emitted<ArpPolicyUsed>().size(), 2U);
  tick_to(now + 1s);
  send(kPeer);
  EXPECT_EQ(emitted<ArpPolicyUsed>().size(), 2U) << "the peer is known: no ARP";
  send(Ipv4Address(0x0a2c0003));
  send(Ipv4Address(0x0a2c0004));
  EXPECT_EQ(emitted<ArpPolicyUsed>().size(), 3U) << "arp_announce";
}

TEST_F(ArpPolicyTest, SenderWithAnAddressOfAnotherInterfaceIsNoNeighbour) {
  bring_up();
  EXPECT_FALSE(replies(kOwnIp, kVirtual));
  EXPECT_EQ(count(Counter::drop_bad_arp_sender), 1U);
  EXPECT_EQ(count(Counter::drop_duplicate_address), 0U) << "load balancers share such addresses";
}

TEST_F(ArpPolicyTest, RepliesToAVirtualAddressAreTaken) {
  bring_up();
  send(ip_packet(kPeer, kVirtual));
  wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
  reply.target_protocol = kVirtual;
  receive_arp(reply);
  grant_paths();
  EXPECT_EQ(state_of(kPeer), "reachable");
}

// --- Source addresses of requests ---------------------------------------------------------------

class ArpAnnounce : public ArpPolicyTest {
 protected:
  /// The sender address of the request that a packet from this address causes.
  [[nodiscard]] Ipv4Address source_for(Ipv4Address packet_source, std::uint8_t announce) {
    set_policy({.announce = announce});
    forget();
    send(ip_packet(kPeer, packet_source));
    const auto sent = sent_arp();
    EXPECT_EQ(sent.size(), 1U);
    (void)link->remove(kPeer);
    return sent.empty() ? Ipv4Address() : sent[0].sender_protocol;
  }
  static constexpr Ipv4Address kSecond{0x0a2c0009};  ///< on the interface, in the peer's subnet
  static constexpr Ipv4Address kOtherSubnet{0x0a370001};  ///< on the interface
};

TEST_F(ArpAnnounce, ChoosesTheSourceAddress) {
  view.addresses.push_back({kSecond, 24});
  view.addresses.push_back({kOtherSubnet, 24});
  bring_up();
  EXPECT_EQ(source_for(kVirtual, 0), kVirtual);
  EXPECT_EQ(source_for(kSecond, 0), kSecond);
  EXPECT_EQ(source_for(kStranger, 0), kOwnIp) << "a forwarded packet";
  EXPECT_EQ(source_for(kVirtual, 1), kOwnIp);
  EXPECT_EQ(source_for(kOtherSubnet, 1), kOwnIp);
  EXPECT_EQ(source_for(kSecond, 1), kSecond);
  EXPECT_EQ(source_for(kSecond, 2), kOwnIp);
  EXPECT_EQ(source_for(kVirtual, 2), kOwnIp);
}

TEST_F(ArpAnnounce, WithoutAnAddressOfTheInterfaceAnAddressOfAnotherOneIsUsed) {
  view.addresses.clear();
  view.local = {{kVirtual, 32}};
  bring_up();
  EXPECT_EQ(source_for(kStranger, 2), kVirtual);
}

}  // namespace
}  // namespace ipoib::link
