// Host to fabric, then fabric to host, then what the view itself sends to the host.
#include "ethernet/view.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "ethernet/addresses_of.hpp"
#include "wire/group_membership.hpp"
#include "wire/transport.hpp"

namespace ipoib::ethernet {
namespace {

using wire::EthernetArp;
using wire::EthernetHeader;
using wire::EtherType;
using wire::LinkLayerOption;
using wire::NdMessage;
using wire::NdType;

/// The next hop of broadcasts. The link knows the broadcast addresses of the host's subnets only,
/// but not those of stations.
constexpr IpAddress kToAll = Ipv4Address(0xffffffff);

EthernetHeader header_before(const Frame& frame) {
  assert(frame.headroom() >= EthernetHeader::kSize);
  return EthernetHeader::parse(frame.bytes().data() - EthernetHeader::kSize);
}

EtherType type_of(const IpAddress& address) {
  return family(address) == IpFamily::v4 ? EtherType::ipv4 : EtherType::ipv6;
}

EthernetHeader header(MacAddress to, MacAddress from, EtherType type) {
  return {to, from, static_cast<std::uint16_t>(type)};
}

/// The counter of a frame that is neither IP nor ARP.
std::uint64_t& drops_of(const EthernetHeader& header, Counters& counters) {
  if (header.destination == wire::kStpGroup) return counters.drop_stp;
  switch (header.type) {
    case wire::kLldpType:
      return counters.drop_lldp;
    case wire::VlanTag::kType:
    case wire::VlanTag::kServiceType:
      return counters.drop_vlan;
    default:
      return counters.drop_type;
  }
}

}  // namespace

View::View(const Limits& limits, const HashKey& key, FramePool& messages)
    : macs_(limits.neighbours, key), messages_(messages), requests_(limits.solicitations) {
  if (limits.stations == 0) return;
  stations_.emplace(limits.stations, limits.strict, key,
                    Stations::Dependencies{identity_, macs_, messages_, wanted_});
}

void View::on_host_changed(const HostView& view, TimePoint now) {
  const auto gone = identity_.update(view);
  last_header_.is_set = false;
  is_ipv6_router_ = view.is_ipv6_router;
  if (stations_) stations_->on_host_changed(gone, now);
}

void View::on_link_address(const HwAddress& hardware) {
  if (link_address_ == hardware) return;
  link_address_ = hardware;
  mac_of_link_ = macs_.mac_of(hardware);
  last_hop_.is_set = false;
}

Counters View::counters() const {
  Counters out = counters_;
  out.drop_no_frame = messages_.dropped();
  return out;
}

// --- Host to fabric ------------------------------------------------------------------------------

void View::from_host(std::vector<Frame>& batch, std::vector<std::optional<IpAddress>>& hops,
                     TimePoint now) {
  hops.clear();
  std::size_t kept = 0;
  for (Frame& frame : batch) {
    std::optional<IpAddress> hop;
    if (!admit(frame, hop, now)) continue;
    hops.push_back(hop);
    batch[kept++] = std::move(frame);
  }
  batch.resize(kept);
}

/// Whether the frame is one for the link. If so, sets its next hop.
bool View::admit(Frame& frame, std::optional<IpAddress>& hop, TimePoint now) {
  const EthernetHeader header = header_before(frame);
  const ConstBytes packet = std::as_const(frame).bytes();
  if (!admit_sender(header)) return false;
  if (is_type(header, EtherType::arp)) {
    receive_arp(header, packet, now);
    return false;
  }
  if (is_type(header, EtherType::rarp) && stations_ && !identity_.is_mac(header.source)) {
    receive_rarp(header, packet, now);
    return false;
  }
  if (!is_type(header, EtherType::ipv4) && !is_type(header, EtherType::ipv6)) {
    ++drops_of(header, counters_);
    return false;
  }
  if (wire::ip_version(packet) == 6 && receive_discovery(header, packet, now)) return false;
  const bool is_multicast = header.destination.is_multicast();
  const bool is_for_link = is_multicast || NeighbourMacs::may_be_of_link(header.destination);
  const auto addresses = addresses_of(packet);
  if (!is_for_link && (!stations_ || !addresses ||
                       is_flooded_for_station(header.destination, addresses->destination, now))) {
    ++counters_.drop_destination;
    return false;
  }
  if (addresses && !admit_packet(header, packet, addresses->source, now)) return false;
  if (header.destination == kBroadcastMac && wire::ip_version(packet) == 4) hop = kToAll;
  if (is_multicast || !addresses) return true;
  if (is_for_link) return find_hop(frame, header, *addresses, hop, now);
  return find_hop_of_flooded(header, *addresses, hop, now);
}

/// A bridge floods frames for a station that has moved away, or has not sent anything for long.
bool View::is_flooded_for_station(MacAddress mac, const IpAddress& destination, TimePoint now) {
  if (identity_.is_mac(mac) || identity_.is_other_mac(mac) || identity_.is_own(destination)) {
    return true;
  }
  StationAddress* const station = stations_->receiver(destination);
  if (station == nullptr) return false;
  if (station->mac() == mac) stations_->on_packet(*station, now);
  return true;
}

/// Finds the hop of a frame to a MAC that is not one of the link. A station that has moved here may
/// still use the MACs of stations behind the bridge that it has left; so may stations here for one
/// that has moved away.
bool View::find_hop_of_flooded(const EthernetHeader& header, const Addresses& addresses,
                               std::optional<IpAddress>& hop, TimePoint now) {
  const bool is_known = macs_.find(addresses.destination) != nullptr;
  // It may be a router, which sends the packet on.
  const bool is_here = stations_->has_addresses(header.destination);
  if ((is_known || !is_here) && stations_->may_correct(header.source, is_known, now)) {
    want_for(header, addresses, now);
  }
  if (!is_known || is_here) {
    ++counters_.drop_destination;
    return false;
  }
  hop = addresses.destination;
  return true;
}

/// Packets with the host's MAC may come from anywhere, since it may be a router.
bool View::admit_packet(const EthernetHeader& header, ConstBytes packet, const IpAddress& source,
                        TimePoint now) {
  if (!stations_) return true;
  if (!identity_.is_mac(header.source) && !identity_.is_sender(header.source, source)) {
    return stations_->receive(header, packet, now);
  }
  if (header.destination.is_multicast() && wire::changes_host_groups(packet)) {
    stations_->receive_host_report(packet, now);
  }
  return true;
}

bool View::admit_sender(const EthernetHeader& header) {
  const bool is_host = identity_.is_mac(header.source);
  const bool is_odd = header.source.is_multicast() || macs_.is_of_link(header.source);
  if (is_host || (stations_ && !is_odd)) return true;
  ++counters_.drop_source;
  return false;
}

/// Finds the hop of a frame: the neighbour itself, or a gateway. Returns false if a bridge has
/// flooded the frame, which is for a station, or if it goes back.
bool View::find_hop(Frame& frame, const EthernetHeader& header, const Addresses& addresses,
                    std::optional<IpAddress>& hop, TimePoint now) {
  const MacAddress mac = header.destination;
  const IpAddress& destination = addresses.destination;
  const std::uint64_t version = stations_ ? stations_->version() : 0;
  if (last_hop_.is_set && last_hop_.stations == version && last_hop_.mac == mac &&
      last_hop_.destination == destination) {
    hop = last_hop_.hop;
    return true;
  }
  if (send_back(frame, header, addresses, now)) return false;
  const auto* const neighbour = macs_.find(destination);
  if (neighbour != nullptr && neighbour->mac == mac) {
    hop = destination;
  } else if (const IpAddress* const gateway = macs_.address_of(mac)) {
    hop = *gateway;
  } else if (stations_ && !identity_.is_mac(header.source)) {
    return find_hop_of_unknown(header, addresses, hop, now);
  } else if (stations_ && stations_->has(mac)) {
    ++counters_.drop_destination;
    return false;
  }
  last_hop_ = {mac, destination, hop, version, true};
  return true;
}

/// Finds the hop of a frame to a MAC that may be one of the link, but which the view does not know:
/// that of a neighbour from before a restart, or that the station knows from another host, or that
/// has another MAC now.
bool View::find_hop_of_unknown(const EthernetHeader& header, const Addresses& addresses,
                               std::optional<IpAddress>& hop, TimePoint now) {
  const IpAddress& destination = addresses.destination;
  const bool is_for_station = stations_->receiver(destination) != nullptr;
  if (is_for_station || stations_->has_addresses(header.destination)) {
    (void)is_flooded_for_station(header.destination, destination, now);
    ++counters_.drop_destination;
    return false;
  }
  if (macs_.find(destination) != nullptr) {
    if (stations_->may_correct(header.source, true, now)) want_for(header, addresses, now);
    hop = destination;
    return true;
  }
  // If the host has addresses, its routes tell.
  const auto is_same_family = [&](const IpAddress& own) {
    return family(own) == family(destination);
  };
  if (std::ranges::any_of(identity_.own(), is_same_family)) return true;
  if (!stations_->may_correct(header.source, false, now)) {
    ++counters_.drop_destination;
    return false;
  }
  hop = destination;
  return true;
}

/// Sends a frame back that goes to the MAC of a neighbour whose address a station here or the host
/// now has: its sender has moved here and knows the MAC from elsewhere, or the neighbour has moved.
/// Frames for the neighbour's other addresses go to the neighbour, which may be a router.
bool View::send_back(Frame& frame, const EthernetHeader& header, const Addresses& addresses,
                     TimePoint now) {
  if (!stations_) return false;
  StationAddress* const station = stations_->receiver(addresses.destination);
  const bool is_of_link = header.destination == mac_of_link_;
  const bool was_there = station != nullptr && station->was_at() == header.destination;
  if (!is_of_link && !was_there) return false;
  const bool is_to_station = station != nullptr;
  if (is_to_station || identity_.is_own(addresses.destination)) {
    tell({header.source, addresses.source}, addresses.destination, station, now);
  }
  if (is_to_station) stations_->on_packet(*station, now);
  const MacAddress to = is_to_station ? station->mac() : identity_.mac();
  if (frame.is_large() || to == header.source || to.is_zero()) {
    ++counters_.drop_destination;
    return true;
  }
  // As of a packet that a router has forwarded: the bridge must not look for the sender here.
  EthernetHeader{to, NeighbourMacs::kOfOthers, header.type}.emit(frame.bytes().data() -
                                                                 EthernetHeader::kSize);
  messages_.waiting().push_back(std::move(frame));
  return true;
}

/// Tells the asker which MAC an address behind the TAP has: that of `station`, or of the host if
/// that is null.
void View::tell(const Asker& asker, const IpAddress& target, const StationAddress* station,
                TimePoint now) {
  const bool has_address =
      std::visit([](const auto& any) { return !any.is_unspecified(); }, asker.address);
  if (!has_address || !stations_->may_correct(asker.mac, true, now)) return;
  const MacAddress mac = station != nullptr ? station->mac() : identity_.mac();
  const bool is_router = station != nullptr ? station->is_router() : is_ipv6_router_;
  answer(asker, target, mac, is_router, NeighbourMacs::kOfOthers);
}

/// Handles ARP of the host's side. The link announces addresses itself, and asks for no others.
void View::receive_arp(const EthernetHeader& header, ConstBytes packet, TimePoint now) {
  const auto message = EthernetArp::parse(packet);
  if (!message) {
    ++counters_.drop_malformed_arp;
    return;
  }
  const bool is_station = is_of_station(header, message->sender_protocol);
  if (is_station && !stations_->receive_arp(header, *message, now)) return;
  if (message->operation != wire::ArpOperation::request) return;
  if (message->sender_protocol == message->target_protocol) return;
  ask(message->target_protocol, {message->sender_hardware, message->sender_protocol},
      kind_of(header.source, is_station), header.destination, now);
}

/// Handles an announcement of a hypervisor that a virtual machine is here, whose addresses it does
/// not know.
void View::receive_rarp(const EthernetHeader& header, ConstBytes packet, TimePoint now) {
  if (wire::reverse_request_sender(packet) != header.source) {
    ++counters_.drop_malformed_arp;
    return;
  }
  stations_->on_arrival(header.source, now);
}

/// Handles a Neighbour Discovery message. Requests for the MAC of a neighbour end here; duplicate
/// address detection goes on to the fabric.
bool View::receive_discovery(const EthernetHeader& header, ConstBytes packet, TimePoint now) {
  if (!wire::is_neighbour_discovery(packet, wire::upper_layer(packet))) return false;
  const auto message = NdMessage::parse(packet);
  if (!message) return false;
  const bool is_advertisement = message->type == NdType::neighbour_advertisement;
  const bool is_station =
      is_of_station(header, is_advertisement ? message->target : message->source);
  if (is_station && !stations_->receive_discovery(header, *message, now)) return true;
  if (message->type != NdType::neighbour_solicitation || message->source.is_unspecified()) {
    return false;
  }
  ask(message->target, {header.source, message->source}, kind_of(header.source, is_station),
      header.destination, now);
  return true;
}

AskerKind View::kind_of(MacAddress mac, bool is_station) const {
  if (!is_station) return AskerKind::host;
  return stations_->has_addresses(mac) ? AskerKind::station : AskerKind::newcomer;
}

/// Asks for the MAC of `target`. A request to the MAC of a neighbour does not reach a station that
/// has the target now.
void View::ask(const IpAddress& target, const Asker& asker, AskerKind kind, MacAddress to,
               TimePoint now) {
  if (identity_.is_own(target)) {
    if (stations_ && to == mac_of_link_) tell(asker, target, nullptr, now);
    return;
  }
  if (!stations_ || !stations_->on_asked(target, now)) return want(target, asker, kind, now);
  const StationAddress* const station = stations_->receiver(target);
  const bool is_misled = station != nullptr && !to.is_multicast() && to != station->mac();
  if (is_misled) tell(asker, target, station, now);
}

void View::want(const IpAddress& target, const Asker& asker, AskerKind kind, TimePoint now) {
  ++counters_.requests;
  if (!requests_.add(target, asker, kind, now)) {
    ++counters_.drop_request_limit;
    return;
  }
  wanted_.push_back(target);
}

/// Asks on behalf of the sender of a packet, who has not asked, but uses a MAC where the
/// destination no longer is.
void View::want_for(const EthernetHeader& header, const Addresses& addresses, TimePoint now) {
  want(addresses.destination, {header.source, addresses.source},
       kind_of(header.source, is_of_station(header, addresses.source)), now);
}

// --- Fabric to host ------------------------------------------------------------------------------

void View::on_neighbour(const IpAddress& address, const HwAddress& hardware, bool is_permanent,
                        TimePoint now) {
  if (stations_ && stations_->on_fabric(address, hardware, now)) return;
  const bool has_moved = macs_.learn(address, hardware);
  last_hop_.is_set = last_header_.is_set = false;
  const auto* const neighbour = macs_.find(address);
  if (neighbour == nullptr) return;  // the address is unspecified: nobody has it
  const auto* const ipv4 = std::get_if<Ipv4Address>(&address);
  // With IPv6 the neighbour's own advertisement answers.
  if (ipv4 != nullptr || is_permanent) {
    for (const Asker& asker : requests_.take(address)) {
      answer(asker, address, neighbour->mac, neighbour->is_router);
    }
  }
  if (ipv4 == nullptr || !has_moved) return;
  ++counters_.announcements;
  messages_.announce(*ipv4, neighbour->mac);
}

void View::to_host(std::vector<Frame>& packets, TimePoint now) {
  std::erase_if(packets, [&](Frame& frame) { return !translate(frame, now); });
  std::ranges::move(messages_.waiting(), std::back_inserter(packets));
  messages_.waiting().clear();
}

/// Writes the Ethernet header before the packet. Returns false if the host is not to get it.
bool View::translate(Frame& frame, TimePoint now) {
  const auto addresses = addresses_of(std::as_const(frame).bytes());
  if (!addresses) return false;
  const ConstBytes packet = std::as_const(frame).bytes();
  if (wire::ip_version(packet) == 6 &&
      wire::is_neighbour_discovery(packet, wire::upper_layer(packet)) &&
      !translate_discovery(frame)) {
    return false;
  }
  assert(frame.headroom() >= EthernetHeader::kSize);
  header_for(addresses->source, addresses->destination, now)
      .emit(frame.bytes().data() - EthernetHeader::kSize);
  return true;
}

EthernetHeader View::header_for(const IpAddress& source, const IpAddress& destination,
                                TimePoint now) {
  const std::uint64_t version = stations_ ? stations_->version() : 0;
  if (!last_header_.is_set || last_header_.stations != version || last_header_.source != source ||
      last_header_.destination != destination) {
    const auto* const sender = macs_.find(source);
    const MacAddress from = sender != nullptr ? sender->mac : NeighbourMacs::kOfOthers;
    StationAddress* const station = stations_ ? stations_->receiver(destination) : nullptr;
    const MacAddress to = station != nullptr ? station->mac() : destination_of(destination);
    last_header_ = {source, destination, header(to, from, type_of(source)), station, version, true};
  }
  StationAddress* const station = last_header_.station;
  if (station != nullptr) stations_->on_packet(*station, now);
  return last_header_.header;
}

MacAddress View::destination_of(const IpAddress& address) const {
  const bool is_multicast = std::visit([](const auto& any) { return any.is_multicast(); }, address);
  if (is_multicast) {
    return std::visit([](const auto& group) { return wire::multicast_mac(group); }, address);
  }
  const auto* const ipv4 = std::get_if<Ipv4Address>(&address);
  const bool is_broadcast =
      ipv4 != nullptr && (ipv4->is_limited_broadcast() || identity_.is_broadcast(address));
  return is_broadcast ? kBroadcastMac : identity_.mac();
}

/// Adds the option of the node that the message tells about. Returns false if nobody waits for it.
bool View::translate_discovery(Frame& frame) {
  const auto message = NdMessage::parse(std::as_const(frame).bytes());
  if (!message) return true;
  const bool is_advertisement = message->type == NdType::neighbour_advertisement;
  const bool has_target = is_advertisement || message->type == NdType::redirect;
  auto* const about = macs_.find(has_target ? message->target : message->source);
  if (about == nullptr) return true;
  if (is_advertisement) {
    about->is_router = message->is_router;
    if (!is_awaited(*message, about->mac)) return false;
  } else if (message->type == NdType::router_advertisement) {
    about->is_router = true;
  }
  const std::size_t begin = frame.headroom();
  const std::size_t size = frame.size();
  if (begin + size + wire::kEthernetOptionSize > frame.capacity()) return true;
  frame.window(begin, size + wire::kEthernetOptionSize);
  (void)wire::append_link_layer_option(
      frame.bytes(), size, has_target ? LinkLayerOption::target : LinkLayerOption::source,
      about->mac);
  return true;
}

/// Passes an advertisement that answers the link's solicitation to those who have asked. Returns
/// whether its own destination is one of them, or nobody has asked.
bool View::is_awaited(const NdMessage& advertisement, MacAddress mac) {
  const auto askers = requests_.take(advertisement.target);
  bool reached = askers.empty() || advertisement.destination.is_multicast();
  for (const Asker& asker : askers) {
    if (asker.address == IpAddress(advertisement.destination)) {
      reached = true;
    } else {
      answer(asker, advertisement.target, mac, advertisement.is_router);
    }
  }
  return reached;
}

// --- Messages to the host ------------------------------------------------------------------------

void View::answer(const Asker& asker, const IpAddress& target, MacAddress mac, bool is_router,
                  MacAddress from) {
  ++counters_.answers;
  if (const auto* const ipv4 = std::get_if<Ipv4Address>(&target)) {
    return messages_.arp({.operation = wire::ArpOperation::reply,
                          .sender_hardware = mac,
                          .sender_protocol = *ipv4,
                          .target_hardware = asker.mac,
                          .target_protocol = std::get<Ipv4Address>(asker.address)},
                         asker.mac, from);
  }
  NdMessage message;
  message.type = NdType::neighbour_advertisement;
  message.source = message.target = std::get<Ipv6Address>(target);
  message.destination = std::get<Ipv6Address>(asker.address);
  message.is_router = is_router;
  message.is_solicited = message.overrides = true;
  messages_.advertisement(message, mac, asker.mac, from);
}

}  // namespace ipoib::ethernet
