// Stations behind the TAP of a simulated host: a bridge that learns where MACs are, and hosts with
// an ARP cache that never expires.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ipoib/well_known_groups.hpp"
#include "tests/sim/host.hpp"
#include "wire/arp.hpp"
#include "wire/ethernet.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::sim {

class Bridge;

class Station {
 public:
  using Frame = MemoryTun::Packet;

  Station(MacAddress mac, Ipv4Address ip) : mac_(mac), ip_(ip) {}

  [[nodiscard]] MacAddress mac() const { return mac_; }
  [[nodiscard]] Ipv4Address ip() const { return ip_; }
  /// Sends a packet with a number, after it has resolved the address.
  void send(Ipv4Address to, std::uint32_t number) {
    waiting_.emplace_back(to, number);
    send_waiting();
    if (!waiting_.empty()) request(to);
  }
  void announce() { request(ip_); }
  void announce_by_rarp();
  void request(Ipv4Address target) { send_arp(wire::ArpOperation::request, target, kBroadcastMac); }
  /// Reports `count` groups from this one on (IGMPv3).
  void join(Ipv4Address first, std::uint32_t count);
  /// A frame that its port of the bridge has received.
  void receive(const Frame& frame);

  std::set<Ipv4Address> heard;  ///< groups of the packets that it has got
  // The same by IPv6, if it has an address.
  void send(const Ipv6Address& to, std::uint32_t number) {
    waiting6_.emplace_back(to, number);
    send_waiting();
    if (!waiting6_.empty()) solicit(to);
  }
  void announce_by_ipv6() { advertise(kAllNodesOfIpv6, wire::multicast_mac(kAllNodesOfIpv6)); }

  std::optional<Ipv6Address> ip6;
  std::map<IpAddress, MacAddress> cache;
  std::vector<std::pair<IpAddress, std::uint32_t>> received;  ///< senders and numbers
  std::vector<Ipv4Address> conflicts;  ///< of ARP messages from its own address
  Bridge* bridge = nullptr;            ///< null: unplugged
  bool answers = true;
  bool echoes = false;  ///< sends each packet back

 private:
  void receive_ipv6(ConstBytes packet);
  void solicit(const Ipv6Address& target);
  void advertise(const Ipv6Address& to, MacAddress mac);
  void send_waiting();
  void send_arp(wire::ArpOperation operation, Ipv4Address target, MacAddress to);
  void transmit(MacAddress to, wire::EtherType type, ConstBytes packet);

  MacAddress mac_;
  Ipv4Address ip_;
  std::vector<std::pair<Ipv4Address, std::uint32_t>> waiting_;
  std::vector<std::pair<Ipv6Address, std::uint32_t>> waiting6_;
};

class Bridge {
 public:
  explicit Bridge(Host& host) : host_(&host) {}

  void plug(Station& station) {
    station.bridge = this;
    stations_.push_back(&station);
  }
  /// Forgets what was behind its port, as a bridge does when a port loses its carrier.
  void unplug(Station& station) {
    station.bridge = nullptr;
    std::erase(stations_, &station);
    std::erase_if(ports_, [&](const auto& learnt) { return learnt.second == &station; });
  }
  /// Delivers what the host's TAP has got from the fabric. Returns whether there was anything.
  bool turn() {
    const auto frames = std::exchange(host_->tun().from_fabric, {});
    for (const auto& frame : frames) deliver(frame, nullptr);
    return !frames.empty();
  }
  void forward(const Station::Frame& frame, const Station* from) { deliver(frame, from); }
  [[nodiscard]] MacAddress host_mac() const { return *host_->mac(); }

  std::vector<Station::Frame> to_host;  ///< from the TAP

 private:
  /// `from`: the port that the frame comes from; null: the TAP.
  void deliver(const Station::Frame& frame, const Station* from) {
    const auto header = wire::EthernetHeader::parse(frame.data());
    ports_[header.source] = from;
    const auto known =
        header.destination.is_multicast() ? ports_.end() : ports_.find(header.destination);
    const bool is_flooded = known == ports_.end();
    const Station* const to = is_flooded ? nullptr : known->second;
    for (Station* const station : std::vector(stations_)) {
      const bool is_for = header.destination.is_multicast() || header.destination == station->mac();
      if (station != from && is_for && (is_flooded || station == to)) station->receive(frame);
    }
    if (from != nullptr && (is_flooded || to == nullptr)) host_->send(frame);
    if (from == nullptr && header.destination == host_mac()) to_host.push_back(frame);
  }

  Host* host_;
  std::vector<Station*> stations_;
  std::map<MacAddress, const Station*> ports_;  ///< null: the TAP
};

inline void Station::receive(const Frame& frame) {
  const auto header = wire::EthernetHeader::parse(frame.data());
  const ConstBytes packet = ConstBytes(frame).subspan(wire::EthernetHeader::kSize);
  if (is_type(header, wire::EtherType::ipv4)) {
    const Ipv4Address to(load_be<std::uint32_t>(&packet[16]));
    if (to.is_multicast()) heard.insert(to);
    if (to == ip_) {
      const Ipv4Address sender(load_be<std::uint32_t>(&packet[12]));
      const auto number = load_be<std::uint32_t>(&packet[20]);
      received.emplace_back(IpAddress(sender), number);
      if (echoes) send(sender, number);
    }
    return;
  }
  if (is_type(header, wire::EtherType::ipv6)) return receive_ipv6(packet);
  const auto arp = wire::EthernetArp::parse(packet);
  if (!is_type(header, wire::EtherType::arp) || !arp) return;
  if (arp->sender_protocol == ip_ && arp->sender_hardware != mac_) {
    conflicts.push_back(arp->sender_protocol);
    return;
  }
  const bool is_for_me = arp->target_protocol == ip_;
  if (!arp->sender_protocol.is_unspecified() &&
      (is_for_me || cache.contains(arp->sender_protocol))) {
    cache[arp->sender_protocol] = arp->sender_hardware;
  }
  if (is_for_me && answers && arp->operation == wire::ArpOperation::request) {
    std::vector<std::uint8_t> bytes(wire::EthernetArp::kSize);
    wire::EthernetArp{wire::ArpOperation::reply, mac_, ip_, arp->sender_hardware,
                      arp->sender_protocol}
        .emit(bytes);
    transmit(header.source, wire::EtherType::arp, bytes);
  }
  send_waiting();
}

inline void Station::receive_ipv6(ConstBytes packet) {
  const auto header = wire::Ipv6Header::parse(packet);
  const auto message = wire::NdMessage::parse(packet);
  if (!ip6 || !header) return;
  if (!message) {
    if (header->destination != *ip6) return;
    received.emplace_back(header->source, load_be<std::uint32_t>(&packet[wire::Ipv6Header::kSize]));
    return;
  }
  const MacAddress mac(ByteReader(packet.last(MacAddress::kSize)).array<MacAddress::kSize>());
  if (message->type == wire::NdType::neighbour_advertisement) {
    const bool waits = std::ranges::any_of(
        waiting6_, [&](const auto& one) { return one.first == message->target; });
    if (waits || cache.contains(message->target)) cache[message->target] = mac;
    send_waiting();
  } else if (message->type == wire::NdType::neighbour_solicitation && message->target == *ip6 &&
             answers) {
    advertise(message->source, mac);
  }
}

inline void Station::solicit(const Ipv6Address& target) {
  wire::NdMessage message;
  message.source = *ip6;
  message.target = target;
  message.destination = target.solicited_node();
  std::vector<std::uint8_t> bytes(wire::NdMessage::kMaxEmitted);
  bytes.resize(wire::append_link_layer_option(bytes, message.emit(bytes),
                                              wire::LinkLayerOption::source, mac_));
  transmit(wire::multicast_mac(message.destination), wire::EtherType::ipv6, bytes);
}

inline void Station::advertise(const Ipv6Address& to, MacAddress mac) {
  wire::NdMessage message;
  message.type = wire::NdType::neighbour_advertisement;
  message.source = message.target = *ip6;
  message.destination = to;
  message.overrides = true;
  message.is_solicited = !to.is_multicast();
  std::vector<std::uint8_t> bytes(wire::NdMessage::kMaxEmitted);
  bytes.resize(wire::append_link_layer_option(bytes, message.emit(bytes),
                                              wire::LinkLayerOption::target, mac_));
  transmit(mac, wire::EtherType::ipv6, bytes);
}

inline void Station::send_waiting() {
  for (auto& [to, number] : std::exchange(waiting6_, {})) {
    const auto at = cache.find(to);
    if (at == cache.end()) {
      waiting6_.emplace_back(to, number);
    } else {
      transmit(at->second, wire::EtherType::ipv6, ip_packet(*ip6, to, number));
    }
  }
  for (auto& [to, number] : std::exchange(waiting_, {})) {
    const auto at = cache.find(to);
    if (at == cache.end()) {
      waiting_.emplace_back(to, number);
    } else {
      transmit(at->second, wire::EtherType::ipv4, ip_packet(ip_, to, number));
    }
  }
}

inline void Station::join(Ipv4Address first, std::uint32_t count) {
  constexpr std::uint32_t kMostRecords = 128;
  constexpr std::uint8_t kChangeToExclude = 4;
  constexpr Ipv4Address kRouters(0xe0000016);
  for (std::uint32_t sent = 0; sent < count; sent += kMostRecords) {
    const std::uint32_t records = std::min(count - sent, kMostRecords);
    std::vector<std::uint8_t> packet{0x46, 0xc0, 0, 0, 0,    0, 0x40, 0, 1,    2, 0, 0, 0, 0, 0, 0,
                                     0,    0,    0, 0, 0x94, 4, 0,    0, 0x22, 0, 0, 0, 0, 0, 0, 0};
    std::ranges::copy(ip_.bytes(), packet.begin() + 12);
    std::ranges::copy(kRouters.bytes(), packet.begin() + 16);
    packet[31] = static_cast<std::uint8_t>(records);
    for (std::uint32_t n = 0; n < records; ++n) {
      packet.insert(packet.end(), {kChangeToExclude, 0, 0, 0});
      const Ipv4Address group(first.number() + sent + n);
      packet.insert(packet.end(), group.bytes().begin(), group.bytes().end());
    }
    store_be(&packet[2], static_cast<std::uint16_t>(packet.size()));
    transmit(wire::multicast_mac(kRouters), wire::EtherType::ipv4, packet);
  }
}

inline void Station::send_arp(wire::ArpOperation operation, Ipv4Address target, MacAddress to) {
  std::vector<std::uint8_t> bytes(wire::EthernetArp::kSize);
  wire::EthernetArp{operation, mac_, ip_, {}, target}.emit(bytes);
  transmit(to, wire::EtherType::arp, bytes);
}

inline void Station::announce_by_rarp() {
  std::vector<std::uint8_t> bytes(wire::EthernetArp::kSize);
  wire::EthernetArp{wire::ArpOperation::request, mac_, {}, mac_, {}}.emit(bytes);
  bytes[7] = 3;  // a reverse request
  transmit(kBroadcastMac, wire::EtherType::rarp, bytes);
}

inline void Station::transmit(MacAddress to, wire::EtherType type, ConstBytes packet) {
  if (bridge == nullptr) return;
  Frame frame(wire::EthernetHeader::kSize);
  wire::EthernetHeader{to, mac_, static_cast<std::uint16_t>(type)}.emit(frame.data());
  frame.insert(frame.end(), packet.begin(), packet.end());
  bridge->forward(frame, this);
}

}  // namespace ipoib::sim
