// One neighbour, brought into each state of docs/states.md.
#pragma once

#include "tests/unit/link/parts_fixture.hpp"

namespace ipoib::link {

class NeighbourStates : public PartsFixture {
 protected:
  void send(std::size_t size = 84) {
    Neighbour* known = entry();
    if (known == nullptr) known = neighbours.create(kPeer);
    neighbours.packet(*known, packet(size), now);
  }
  void hear(const HwAddress& from, Evidence evidence) {
    Neighbour* known = entry();
    if (known == nullptr) known = neighbours.create(kPeer);
    neighbours.address(*known, from, evidence, now);
  }
  void confirm(const HwAddress& from) { hear(from, Evidence::confirmed); }
  void tell(const HwAddress& from) { hear(from, Evidence::unconfirmed); }
  void contradict() { neighbours.contradicted(*entry(), now); }
  void owe_reply() {
    wire::Arp request;
    request.sender_hardware = kHere;
    request.sender_protocol = kPeer;
    request.target_protocol = Ipv4Address(0x0a2c0001);
    neighbours.send_reply(*entry(), arp.make_reply(request), now);
  }
  void set_permanent(const HwAddress& to) {
    Neighbour* known = entry();
    if (known == nullptr) known = neighbours.create(kPeer);
    neighbours.set_permanent(*known, {to, paths.acquire(to.gid)}, now);
  }
  void remove() { neighbours.remove(*entry(), Counter::drop_neighbour_removed); }

  // --- Ways into the states; what was said on the way is forgotten -----------------------------
  void be_incomplete() {
    send();
    forget();
  }
  /// `question` is the one for the path to kHere.
  void be_resolving() {
    be_incomplete();
    tell(kHere);
    question = asked().at(0);
    forget();
  }
  void be_resolving_unparked() {
    tell(kHere);
    question = asked().at(0);
    forget();
  }
  void be_reachable() {
    prepare_path(kHere.gid);
    confirm(kHere);
    forget();
  }
  void be_stale() {
    prepare_path(kHere.gid);
    tell(kHere);
    forget();
  }
  void be_delay() {
    be_stale();
    send();
    forget();
  }
  void be_probing() {
    be_delay();
    reach_deadline();
    forget();
  }
  void be_failed() {
    be_incomplete();
    for (unsigned i = 0; i < config.ageing.broadcast_probes; ++i) reach_deadline();
    forget();
  }
  void be_permanent() {
    prepare_path(kHere.gid);
    set_permanent(kHere);
    forget();
  }
  /// A permanent one whose path is asked for, with one frame parked.
  void be_permanent_waiting() {
    set_permanent(kHere);
    send();
    question = asked().at(0);
    forget();
  }

  // --- What is expected in many rows -----------------------------------------------------------
  void expect_sent_to(const HwAddress& where, std::size_t packets) {
    EXPECT_EQ(sent_packets(), packets);
    for (const Outgoing& sent : out.sends) EXPECT_EQ(sent.qpn, where.qpn);
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
  void expect_gone_dropping(Counter why, std::uint64_t frames) {
    EXPECT_EQ(state(), "gone");
    EXPECT_EQ(count(why), frames);
    EXPECT_EQ(parking.used, 0U);
  }

  AskPath question;
};

}  // namespace ipoib::link
