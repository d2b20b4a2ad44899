// Received ARP messages, and what datagrams show about their sender.
#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

class NeighbourInputTest : public LinkFixture {
 protected:
  void SetUp() override { bring_up(); }
  [[nodiscard]] std::size_t warnings_with(std::string_view words) const {
    const auto all = lines.all();
    return static_cast<std::size_t>(std::ranges::count_if(all, [words](const std::string& line) {
      return line.find("warning") != line.npos && line.find(words) != line.npos;
    }));
  }

  const LoggedLines lines;
};

TEST_F(NeighbourInputTest, AnArpReplyIsNoProbe) {
  wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
  reply.sender_protocol = Ipv4Address{};
  receive_arp(reply, broadcast());
  EXPECT_TRUE(sent_arp().empty());
  EXPECT_EQ(count(Counter::drop_bad_arp_sender), 1U);
  EXPECT_EQ(count(Counter::arp_ignored), 0U);
}

TEST_F(NeighbourInputTest, DuplicateAddressesAreLoggedOnceInTenSeconds) {
  wire::Arp claim = arp_from_peer(wire::ArpOperation::request);
  claim.sender_protocol = kOwnIp;
  const auto receive_some = [&] {
    for (int i = 0; i < 5; ++i) receive_arp(claim, broadcast());
  };
  receive_some();
  EXPECT_EQ(warnings_with("duplicate address"), 1U);
  tick_to(now + 10s - 1ms);
  receive_some();
  EXPECT_EQ(warnings_with("duplicate address"), 1U);
  tick_to(now + 1ms);
  receive_some();
  EXPECT_EQ(warnings_with("duplicate address"), 2U);
  EXPECT_EQ(count(Counter::drop_duplicate_address), 15U);
}

TEST_F(NeighbourInputTest, ASecondDuplicateAddressIsLoggedToo) {
  const Ipv4Address second(0x0a2c0009);
  view.addresses.push_back({second, 24});
  link->on_host_changed(view, now);
  wire::Arp claim = arp_from_peer(wire::ArpOperation::request);
  for (const Ipv4Address address : {kOwnIp, second, kOwnIp, second}) {
    claim.sender_protocol = address;
    receive_arp(claim, broadcast());
  }
  EXPECT_EQ(warnings_with("duplicate address: " + kOwnIp.to_string()), 1U);
  EXPECT_EQ(warnings_with("duplicate address: " + second.to_string()), 1U);
}

class SenderOfDatagrams : public LinkFixture {
 protected:
  /// A packet of the peer's address, as its HCA marks it.
  void receive_from(Qpn qpn, Lid lid) {
    Incoming incoming = datagram(encapsulated(ip_packet(kOwnIp, kPeer)));
    incoming.source_qpn = qpn;
    incoming.source_lid = lid;
    receive(std::move(incoming));
  }
};

/// Also if messages that claim another queue pair than their sender's are accepted.
TEST_F(SenderOfDatagrams, AnotherQueuePairDoesNotInvalidateThePath) {
  config.strict_arp = false;
  bring_up();
  resolve_peer();
  const auto receive_from = [this](Qpn qpn) {
    Incoming incoming = datagram(arp_frame(arp_from_peer(wire::ArpOperation::request)));
    incoming.source_qpn = qpn;
    incoming.source_lid = Lid(9);
    receive(std::move(incoming));
  };
  receive_from(Qpn(kPeerHw.qpn.value() + 1));
  EXPECT_EQ(count(Counter::path_lid_mismatches), 0U);
  receive_from(kPeerHw.qpn);
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U);
}

/// What one sender has shown about itself says nothing about another one.
TEST_F(SenderOfDatagrams, AnotherQueuePairDoesNotHideThatThePeerHasMoved) {
  bring_up();
  resolve_peer();
  receive_from(Qpn(0x99), Lid(8));
  EXPECT_EQ(count(Counter::path_lid_mismatches), 0U);
  receive_from(kPeerHw.qpn, Lid(8));
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U);
}

}  // namespace
}  // namespace ipoib::link
