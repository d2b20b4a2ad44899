// Fabric to host: IP packets, ARP, and drops by reason.
#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

class Receive : public LinkFixture {
 protected:
  /// An encapsulated IPv4 packet of the peer.
  [[nodiscard]] Frame from_peer(std::uint16_t type = 0x0800, std::uint16_t reserved = 0) {
    Frame frame = ip_packet(kOwnIp, kPeer);
    std::uint8_t* const front = frame.prepend(kHeadroom);
    store_be(front, type);
    store_be(front + 2, reserved);
    return frame;
  }
};

TEST_F(Receive, DropsDatagramsBeforeTheLinkIsUp) {
  make();
  receive(datagram(from_peer()));
  EXPECT_TRUE(link->to_host().empty());
  EXPECT_EQ(count(Counter::drop_not_up), 1U);
}

TEST_F(Receive, IcmpRedirectIsAnnounced) {
  bring_up();
  Frame frame = ip_packet(kOwnIp, kPeer);
  frame.bytes()[9] = 1;  // ICMP
  frame.bytes()[20] = 8;
  receive(datagram(encapsulated(std::move(frame))));
  EXPECT_TRUE(emitted<RedirectReceived>().empty()) << "an echo request";
  frame = ip_packet(kOwnIp, kPeer);
  frame.bytes()[9] = 1;
  frame.bytes()[20] = 5;
  receive(datagram(encapsulated(std::move(frame))));
  EXPECT_EQ(emitted<RedirectReceived>().size(), 1U);
  EXPECT_EQ(link->to_host().size(), 2U) << "the kernel decides whether to follow it";
}

TEST_F(Receive, RedirectsAreAnnouncedOnceASecond) {
  bring_up();
  const auto receive_redirect = [this] {
    Frame frame = ip_packet(kOwnIp, kPeer);
    frame.bytes()[9] = 1;
    frame.bytes()[20] = 5;
    receive(datagram(encapsulated(std::move(frame))));
  };
  for (int i = 0; i < 50; ++i) receive_redirect();
  EXPECT_EQ(take<RedirectReceived>().size(), 1U);
  tick_to(now + 999ms);
  EXPECT_TRUE(emitted<RedirectReceived>().empty());
  tick_to(now + 1ms);
  EXPECT_EQ(take<RedirectReceived>().size(), 1U) << "the host may have followed only the last one";
  tick_to(now + 1min);
  EXPECT_TRUE(emitted<RedirectReceived>().empty());
  receive_redirect();
  EXPECT_EQ(emitted<RedirectReceived>().size(), 1U) << "at once";
}

TEST_F(Receive, PacketGoesToTheHostWithoutTheEncapsulationHeader) {
  bring_up();
  receive(datagram(from_peer()));
  ASSERT_EQ(link->to_host().size(), 1U);
  EXPECT_EQ(link->to_host()[0].size(), 84U);
  EXPECT_EQ(link->to_host()[0].bytes()[0], 0x45);
}

TEST_F(Receive, RFC4391_6_ReservedIsIgnored) {
  bring_up();
  receive(datagram(from_peer(0x0800, 0xffff)));
  EXPECT_EQ(link->to_host().size(), 1U);
}

TEST_F(Receive, DropsAreCountedByReason) {
  bring_up();
  Frame shorter = pool.take();
  shorter.window(0, 3);
  receive(datagram(std::move(shorter)));
  EXPECT_EQ(count(Counter::drop_malformed_datagram), 1U);
  receive(datagram(from_peer(0x88ca)));
  receive(datagram(from_peer(0x8035)));
  EXPECT_EQ(count(Counter::drop_unsupported_type), 2U);
  receive(datagram(from_peer(0x0806)));
  EXPECT_EQ(count(Counter::drop_malformed_arp), 1U);
  EXPECT_EQ(count(Counter::arp_received), 1U);
  Frame truncated = from_peer();
  truncated.window(0, 23);
  receive(datagram(std::move(truncated)));
  receive(datagram(from_peer(0x86dd)));
  EXPECT_EQ(count(Counter::drop_malformed_datagram), 3U) << "IPv4 with the type of IPv6";
  EXPECT_TRUE(link->to_host().empty());
  EXPECT_EQ(pool.available(), pool.capacity());
}

TEST_F(Receive, OwnMulticastIsDropped) {
  bring_up();
  Incoming own = datagram(from_peer(), broadcast());
  own.source_lid = port.lid;
  own.source_qpn = kOwnQpn;
  own.source_gid = port.gid;
  receive(std::move(own));
  EXPECT_EQ(count(Counter::multicast_looped_back), 1U);
  // Another process on our port has our LID but another QPN.
  Incoming neighbour = datagram(from_peer(), broadcast());
  neighbour.source_lid = port.lid;
  receive(std::move(neighbour));
  EXPECT_EQ(link->to_host().size(), 1U);
}

TEST_F(Receive, OwnMulticastIsRecognisedByEachLidOfThePort) {
  port.lid = Lid(8);
  port.lmc = 2;
  bring_up();
  for (const Lid lid : {Lid(8), Lid(11), Lid(12)}) {
    Incoming own = datagram(from_peer(), broadcast());
    own.source_lid = lid;
    own.source_qpn = kOwnQpn;
    own.source_gid = port.gid;
    receive(std::move(own));
  }
  EXPECT_EQ(count(Counter::multicast_looped_back), 2U);
  EXPECT_EQ(link->to_host().size(), 1U) << "LID 12 is that of another port";
}

TEST_F(Receive, AcceptsOurQpnFromAnotherPortWithoutLids) {
  port.lid = Lid();
  bring_up();
  Incoming theirs = datagram(from_peer(), broadcast());
  theirs.source_lid = Lid();
  theirs.source_qpn = kOwnQpn;
  Incoming own = datagram(from_peer(), broadcast());
  own.source_lid = Lid();
  own.source_qpn = kOwnQpn;
  own.source_gid = port.gid;
  receive(std::move(theirs));
  receive(std::move(own));
  EXPECT_EQ(count(Counter::multicast_looped_back), 1U);
  EXPECT_EQ(link->to_host().size(), 1U);
}

TEST_F(Receive, OtherGroupsOnTheSameLidAreDropped) {
  bring_up();
  receive(datagram(from_peer(), wire::multicast_gid(Ipv4Address(0xe00000fb), kDefaultPKey)));
  EXPECT_EQ(count(Counter::drop_foreign_group), 1U);
  receive(datagram(from_peer(), wire::multicast_gid(kAllNodes, kDefaultPKey)));
  receive(datagram(from_peer(), broadcast()));
  EXPECT_EQ(link->to_host().size(), 2U);
}

TEST_F(Receive, NewSourceLidRefreshesThePathOnce) {
  bring_up();
  resolve_peer();
  receive(datagram(from_peer()));
  EXPECT_EQ(count(Counter::path_lid_mismatches), 0U);
  for (int i = 0; i < 5; ++i) {
    Incoming moved = datagram(from_peer());
    moved.source_lid = Lid(9);
    receive(std::move(moved));
    send(kPeer);
  }
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U);
  EXPECT_EQ(emitted<PathRequest>().size(), 1U);
  grant_paths(9);
  EXPECT_EQ(link->get(kPeer, now)->path->dlid, Lid(9));
}

TEST_F(Receive, DatagramOfAnotherPortDoesNotInvalidateThePath) {
  bring_up();
  resolve_peer();
  Incoming forged = datagram(from_peer(), broadcast());
  forged.source_lid = Lid(9);
  forged.source_gid = port_gid(9);
  receive(std::move(forged));
  EXPECT_EQ(count(Counter::path_lid_mismatches), 0U);
  Incoming moved = datagram(from_peer(), broadcast());
  moved.source_lid = Lid(10);
  receive(std::move(moved));
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U);
}

using ReceiveArp = Receive;

TEST_F(ReceiveArp, RequestForUsIsAnsweredOnceThePathIsKnown) {
  bring_up();
  receive_arp(arp_from_peer(wire::ArpOperation::request), broadcast());
  EXPECT_EQ(state_of(kPeer), "resolving");
  EXPECT_TRUE(link->sends().empty());
  grant_paths();
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(link->sends()[0].qpn, kPeerHw.qpn);
  const wire::Arp reply = sent_arp()[0];
  EXPECT_EQ(reply.operation, wire::ArpOperation::reply);
  EXPECT_EQ(reply.sender_protocol, kOwnIp);
  EXPECT_EQ(reply.sender_hardware, link->hardware_address());
  EXPECT_EQ(reply.target_protocol, kPeer);
  EXPECT_EQ(reply.target_hardware, kPeerHw);
  EXPECT_EQ(state_of(kPeer), "stale");
}

TEST_F(ReceiveArp, MessagesForOthersCreateNoEntry) {
  bring_up();
  for (const auto operation : {wire::ArpOperation::request, wire::ArpOperation::reply}) {
    wire::Arp message = arp_from_peer(operation);
    message.target_protocol = Ipv4Address(0x0a2c0063);
    receive_arp(message, broadcast());
  }
  wire::Arp gratuitous = arp_from_peer(wire::ArpOperation::request);
  gratuitous.target_protocol = kPeer;
  receive_arp(gratuitous, broadcast());
  EXPECT_EQ(link->neighbour_count(), 0U);
  EXPECT_EQ(count(Counter::arp_ignored), 0U) << "they ask the host for nothing";
  EXPECT_EQ(count(Counter::drop_unsolicited_reply), 0U);
}

TEST_F(ReceiveArp, GratuitousArpReplacesTheAddressOfAnEntry) {
  bring_up();
  resolve_peer();
  wire::Arp gratuitous = arp_from_peer(wire::ArpOperation::request);
  gratuitous.target_protocol = kPeer;
  gratuitous.sender_hardware.qpn = Qpn(0x2222);
  receive_arp(gratuitous, broadcast());
  EXPECT_EQ(link->get(kPeer, now)->hardware->qpn, Qpn(0x2222));
  EXPECT_TRUE(emitted<PathRequest>().empty()) << "the same GID: the path is kept";
  send(kPeer);
  ASSERT_EQ(link->sends().size(), 1U);
  EXPECT_EQ(link->sends()[0].qpn, Qpn(0x2222));
}

TEST_F(ReceiveArp, BroadcastReplyDoesNotConfirm) {
  bring_up();
  send(kPeer);
  receive_arp(arp_from_peer(wire::ArpOperation::reply), broadcast());
  grant_paths();
  EXPECT_EQ(state_of(kPeer), "delay");
}

TEST_F(ReceiveArp, FlagsOfTheSenderAreIgnored) {
  bring_up();
  resolve_peer();
  wire::Arp message = arp_from_peer(wire::ArpOperation::reply);
  message.sender_hardware.flags = 0xc0;
  receive_arp(message);
  EXPECT_EQ(count(Counter::neighbour_address_changes), 0U);
}

TEST_F(ReceiveArp, DuplicateAddressIsCountedAndNotLearnt) {
  bring_up();
  wire::Arp claim = arp_from_peer(wire::ArpOperation::request);
  claim.sender_protocol = kOwnIp;
  receive_arp(claim, broadcast());
  EXPECT_EQ(count(Counter::drop_duplicate_address), 1U);
  EXPECT_EQ(link->neighbour_count(), 0U);
  EXPECT_TRUE(link->sends().empty());
}

TEST_F(ReceiveArp, RFC5227_ProbeIsAnsweredByBroadcast) {
  bring_up();
  wire::Arp probe = arp_from_peer(wire::ArpOperation::request);
  probe.sender_protocol = Ipv4Address{};
  receive_arp(probe, broadcast());
  ASSERT_EQ(sent_arp().size(), 1U);
  EXPECT_EQ(link->sends()[0].qpn, kMulticastQpn);
  EXPECT_EQ(sent_arp()[0].sender_protocol, kOwnIp);
  EXPECT_EQ(link->neighbour_count(), 0U);
}

TEST_F(ReceiveArp, BadSendersAreCounted) {
  bring_up();
  std::vector<wire::Arp> bad(7, arp_from_peer(wire::ArpOperation::request));
  bad[0].sender_protocol = Ipv4Address(0xe0000005);
  bad[1].sender_protocol = Ipv4Address(0xffffffff);
  bad[2].sender_protocol = Ipv4Address(0x0a2c00ff);
  bad[3].sender_hardware.qpn = Qpn(1);
  bad[4].sender_hardware.qpn = kMulticastQpn;
  bad[5].sender_hardware.gid = broadcast();
  bad[6].sender_hardware = link->hardware_address();
  for (const wire::Arp& message : bad) receive_arp(message, broadcast());
  EXPECT_EQ(count(Counter::drop_bad_arp_sender), bad.size());
  EXPECT_EQ(link->neighbour_count(), 0U);
}

TEST_F(ReceiveArp, WithoutAFreeFrameTheReplyIsDroppedAndCounted) {
  bring_up();
  std::vector<Frame> all;
  const Frame request = arp_frame(arp_from_peer(wire::ArpOperation::request));
  Incoming incoming = datagram(arp_frame(arp_from_peer(wire::ArpOperation::request)), broadcast());
  while (pool.available() > 0) all.push_back(pool.take());
  receive(std::move(incoming));
  // The received frame is released only afterwards.
  EXPECT_EQ(count(Counter::drop_no_frame), 1U);
  EXPECT_EQ(state_of(kPeer), "resolving");
}

}  // namespace
}  // namespace ipoib::link
