// A complete link, with SA responses from the test.
#pragma once

#include "link/link.hpp"
#include "tests/on_link.hpp"
#include "tests/unit/link/object_fixture.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::link {

class LinkFixture : public ::testing::Test {
 protected:
  LinkFixture() {
    port.active = true;
    port.sm_known = true;
    port.lid = Lid(4);
    port.gid = port_gid(1);
    port.pkey_index = 2;
    view.addresses = {{kOwnIp, 24}};
    view.tables = test::all_on_link();
  }
  ~LinkFixture() override {
    if (link) link->shut_down(now);
  }

  static constexpr Ipv4Address kOwnIp{0x0a2c0001};
  static constexpr Ipv4Address kPeer{0x0a2c0002};
  static inline const HwAddress kPeerHw = hardware(0x22, 2);
  static constexpr Qpn kOwnQpn{0x11};

  void make() {
    const Link::Dependencies deps{.handles = handles,
                                  .messages = pool,
                                  .packets = pool,
                                  .log = *silent_logger(),
                                  .hash_key = kHashKey,
                                  .arp_policy = arp_policy};
    link = std::make_unique<Link>(config, deps, kOwnQpn, 42);
    link->on_host_changed(view, now);
  }
  /// Creates a link, brings it up, and discards the output.
  void bring_up() {
    make();
    link->on_port(port, now);
    grant_joins();
    ASSERT_EQ(link->state(), LinkState::up);
    forget();
  }
  void forget() {
    link->events().clear();
    link->sends().clear();
    link->to_host().clear();
  }
  template <class E>
  [[nodiscard]] std::vector<E> emitted() {
    return events_of<E>(link->events());
  }
  /// Takes the events of one kind out.
  template <class E>
  [[nodiscard]] std::vector<E> take() {
    const std::vector<E> found = emitted<E>();
    std::erase_if(link->events(), [](const Event& e) { return event_as<E>(e).has_value(); });
    return found;
  }
  /// Grants all joins: the broadcast group gets MLID 0xc000, others 0xc001.
  void grant_joins() {
    for (auto requests = take<JoinRequest>(); !requests.empty(); requests = take<JoinRequest>()) {
      for (const JoinRequest& join : requests) {
        link->on_response({join.id, group_record(join.record.mgid, mlid_of(join.record.mgid))},
                          now);
      }
    }
  }
  [[nodiscard]] static std::uint16_t mlid_of(const Gid& mgid) {
    return mgid == wire::broadcast_gid(kDefaultPKey) ? 0xc000 : 0xc001;
  }
  void grant_paths(std::uint16_t dlid = 7, std::uint8_t mtu = 4) {
    for (const PathRequest& ask : take<PathRequest>()) {
      link->on_response({ask.id, path_record(ask.record.dgid, dlid, mtu)}, now);
    }
  }
  void tick_to(TimePoint then) {
    while (link->next_deadline() <= then) {
      now = link->next_deadline();
      link->tick(now);
    }
    now = then;
  }

  /// What a packet of the default size counts while it is parked.
  static constexpr std::size_t kParkedPacket = ParkingBudget::kPacketOverhead + kHeadroom + 84;
  /// An IPv4 packet of `size` bytes with headroom. It has DF set, as most have.
  [[nodiscard]] Frame ip_packet(Ipv4Address to, Ipv4Address from = kOwnIp, std::size_t size = 84) {
    Frame frame = pool.take();
    frame.window(kHeadroom, size);
    std::ranges::fill(frame.bytes(), std::uint8_t{0});
    ByteWriter out(frame.bytes());
    out.u8(0x45);
    out.u8(0);
    out.u16(static_cast<std::uint16_t>(size));
    frame.bytes()[6] = 0x40;
    frame.bytes()[8] = 64;
    std::ranges::copy(from.bytes(), frame.bytes().begin() + 12);
    std::ranges::copy(to.bytes(), frame.bytes().begin() + 16);
    return frame;
  }
  [[nodiscard]] Frame ip_packet(const Ipv6Address& to, const Ipv6Address& from,
                                std::size_t size = 84) {
    Frame frame = pool.take();
    frame.window(kHeadroom, size);
    std::ranges::fill(frame.bytes(), std::uint8_t{0});
    wire::Ipv6Header{.source = from,
                     .destination = to,
                     .payload_length = static_cast<std::uint16_t>(size - wire::Ipv6Header::kSize),
                     .next_header = 59,  // nothing follows (RFC 8200, 4.7)
                     .hop_limit = 64}
        .emit(frame.bytes());
    return frame;
  }
  void send(Frame&& packet) { link->from_host({&packet, 1}, now); }
  void send(Ipv4Address to, std::size_t size = 84) {
    Frame frame = ip_packet(to, kOwnIp, size);
    link->from_host({&frame, 1}, now);
  }
  /// A datagram of the peer, unicast unless a group is given.
  [[nodiscard]] Incoming datagram(Frame&& frame, std::optional<Gid> group = {}) {
    Incoming incoming;
    incoming.frame = std::move(frame);
    incoming.source_lid = Lid(7);
    incoming.source_qpn = kPeerHw.qpn;
    if (group) {
      incoming.has_grh = true;
      incoming.source_gid = kPeerHw.gid;
      incoming.destination_gid = *group;
    }
    return incoming;
  }
  /// Prepends the encapsulation header.
  [[nodiscard]] static Frame encapsulated(Frame&& packet,
                                          wire::EtherType type = wire::EtherType::ipv4) {
    Frame frame = std::move(packet);
    wire::emit_encapsulation(type, frame.prepend(kHeadroom));
    return frame;
  }
  void receive(Incoming&& incoming) { link->from_fabric({&incoming, 1}, now); }
  [[nodiscard]] Frame arp_frame(const wire::Arp& message) {
    Frame frame = pool.take();
    frame.window(0, wire::kEncapsulationSize + wire::Arp::kSize);
    wire::emit_encapsulation(wire::EtherType::arp, frame.bytes().data());
    message.emit(frame.bytes().subspan(wire::kEncapsulationSize));
    return frame;
  }
  [[nodiscard]] wire::Arp arp_from_peer(wire::ArpOperation operation) const {
    wire::Arp message;
    message.operation = operation;
    message.sender_hardware = kPeerHw;
    message.sender_protocol = kPeer;
    message.target_protocol = kOwnIp;
    return message;
  }
  /// The frame with the source that the HCA reports when `sender` has sent it.
  [[nodiscard]] static Incoming sent_by(const HwAddress& sender, Incoming&& incoming) {
    Incoming marked = std::move(incoming);
    marked.source_qpn = sender.qpn;
    if (marked.has_grh) marked.source_gid = sender.gid;
    return marked;
  }
  /// An ARP request or reply, sent by the address that it claims.
  void receive_arp(const wire::Arp& message, std::optional<Gid> group = {}) {
    receive(sent_by(message.sender_hardware, datagram(arp_frame(message), group)));
  }
  /// Makes the peer a reachable neighbour.
  void resolve_peer() {
    send(kPeer);
    receive_arp(arp_from_peer(wire::ArpOperation::reply));
    grant_paths();
    ASSERT_EQ(state_of(kPeer), "reachable");
    forget();
  }
  [[nodiscard]] std::string state_of(const IpAddress& address) const {
    const auto info = link->get(address, now);
    return info ? std::string(name(info->state)) : "gone";
  }
  [[nodiscard]] std::vector<wire::Arp> sent_arp() const {
    std::vector<wire::Arp> messages;
    for (const Outgoing& sent : link->sends()) {
      const ConstBytes bytes = sent.frame.bytes();
      if (wire::parse_encapsulation(bytes) != wire::EtherType::arp) continue;
      messages.push_back(*wire::Arp::parse(bytes.subspan(wire::kEncapsulationSize)));
    }
    return messages;
  }
  [[nodiscard]] std::uint64_t count(Counter counter) const { return link->counters()[counter]; }
  [[nodiscard]] static Gid broadcast() { return wire::broadcast_gid(kDefaultPKey); }

  TimePoint now{1h};
  Config config;
  const ArpPolicySource* arp_policy = nullptr;
  PortStatus port;
  HostView view;
  FakeAddressHandles handles;
  FramePool pool{512, 4096};
  std::unique_ptr<Link> link;
};

}  // namespace ipoib::link
