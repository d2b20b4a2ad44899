// One neighbour, in each state of docs/states.md.
#pragma once

#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {

class NeighbourStates : public ObjectFixture {
 public:
  // --- Stimuli ---------------------------------------------------------------------------------
  void send() { neighbours.packet(find_or_create(), packet(), now); }
  void learn(const HwAddress& address, Evidence evidence = Evidence::unconfirmed) {
    neighbours.address(find_or_create(), address, evidence, now);
  }
  void confirm(const HwAddress& address) { learn(address, Evidence::confirmed); }
  void solicit() { neighbours.solicit(find_or_create(), now); }
  void contradict() { neighbours.contradicted(*entry(), now); }
  void send_reply() {
    wire::Arp request;
    request.sender_hardware = kPeerHw;
    request.sender_protocol = kPeer;
    request.target_protocol = Ipv4Address(0x0a2c0001);
    neighbours.send_reply(*entry(), arp.make_reply(request), now);
  }
  void link_down() { neighbours.link_down(now); }
  void set_permanent(const HwAddress& to) {
    neighbours.set_permanent(find_or_create(), {to, paths.acquire(to.gid)}, now);
  }
  void remove() { neighbours.remove(*entry(), Counter::drop_neighbour_removed, ""); }
  /// What another daemon has saved about kPeer.
  void restore(std::optional<Duration> reachable_for) {
    const SavedNeighbour saved{.address = kPeer,
                               .hardware = kPeerHw,
                               .path = {},
                               .reachable_for = reachable_for,
                               .used = 3s,
                               .uses = 0x1'0000'0005};
    neighbours.restore(find_or_create(), saved, paths.acquire(kPeerHw.gid), now);
  }

  // --- The states; each function discards the output that leads to its state -------------------
  void make_new() {}
  void make_new_with_path() { prepare_path(kPeerHw.gid); }
  void make_incomplete() {
    send();
    forget();
  }
  void make_incomplete_with_path() {
    prepare_path(kPeerHw.gid);
    make_incomplete();
  }
  /// `path_request` is the one for the path to kPeerHw.
  void make_resolving() {
    make_incomplete();
    make_resolving_unparked();
  }
  void make_resolving_unparked() {
    learn(kPeerHw);
    path_request = path_requests().at(0);
    forget();
  }
  void make_reachable() {
    prepare_path(kPeerHw.gid);
    confirm(kPeerHw);
    forget();
  }
  void make_stale() {
    prepare_path(kPeerHw.gid);
    learn(kPeerHw);
    forget();
  }
  void make_delay() {
    make_stale();
    send();
    forget();
  }
  void make_probing() {
    make_delay();
    reach_deadline();
    forget();
  }
  void make_failed() {
    make_incomplete();
    for (unsigned i = 0; i < config.ageing.broadcast_probes; ++i) reach_deadline();
    forget();
  }
  void make_permanent() {
    prepare_path(kPeerHw.gid);
    set_permanent(kPeerHw);
    forget();
  }
  /// Its path is pending, and one frame is parked.
  void make_permanent_waiting() {
    set_permanent(kPeerHw);
    send();
    path_request = path_requests().at(0);
    forget();
  }

  // --- Expectations ----------------------------------------------------------------------------
  void expect_nothing_sent() { EXPECT_TRUE(out.sends.empty()); }
  void expect_sent_to(const HwAddress& where, std::size_t packets) {
    EXPECT_EQ(sent_packets(), packets);
    for (const Outgoing& sent : out.sends) EXPECT_EQ(sent.qpn, where.qpn);
    EXPECT_EQ(parking.used, 0U);
  }
  void expect_reply_sent_to(const HwAddress& where) {
    ASSERT_EQ(sent_arp().size(), 1U);
    EXPECT_EQ(sent_arp()[0].message.operation, wire::ArpOperation::reply);
    EXPECT_EQ(sent_arp()[0].to, where.qpn);
  }
  void expect_route(const HwAddress& where) {
    ASSERT_NE(entry(), nullptr);
    ASSERT_NE(entry()->route(), nullptr);
    EXPECT_EQ(entry()->route()->hardware(), where);
  }
  void expect_dropped(Counter why) {
    EXPECT_EQ(count(why), 1U);
    EXPECT_EQ(parking.used, 0U);
    expect_nothing_sent();
  }

  static inline const HwAddress kOtherQp = hardware(0x44, 2);  ///< on the port of kPeerHw

 protected:
  [[nodiscard]] Neighbour& find_or_create() {
    Neighbour* const known = entry();
    return known != nullptr ? *known : *neighbours.create(kPeer, Purpose::packet);
  }

  PathRequest path_request;
};

}  // namespace ipoib::link
