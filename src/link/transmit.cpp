// Host to fabric. The first function is the data path; the others are for what is rare.
#include <utility>

#include "link/link.hpp"
#include "link/link_parts.hpp"
#include "link/too_big.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"

namespace ipoib::link {
namespace {

/// Of an IPv4 header (RFC 791, 3.1).
constexpr std::size_t kProtocolOffset = 9;
constexpr std::uint8_t kIgmp = 2;

/// 224.0.0.0/24 stays on the link (RFC 5771, 4).
bool is_routable(Ipv4Address group) { return (group.number() & 0xffffff00) != 0xe0000000; }

void encapsulate(Frame& frame) {
  wire::emit_encapsulation(wire::EtherType::ipv4, frame.prepend(wire::kEncapsulationSize));
}

}  // namespace

void Link::from_host(std::span<Frame> batch, TimePoint now) {
  Parts& p = *parts_;
  p.out.counters.add(Counter::tx_packets, batch.size());
  if (!p.bring_up.is_up()) {
    p.out.counters.add(Counter::drop_link_down, batch.size());
    for (Frame& frame : batch) frame.release();
    return;
  }
  for (Frame& frame : batch) p.transmit(std::move(frame), now);
}

/// An entry is found before the destination is classified: no entry exists for a group, a
/// broadcast address, or an address of the host.
void Link::Parts::transmit(Frame&& frame, TimePoint now) {
  const auto header = wire::Ipv4Header::parse(frame.bytes());
  if (!header || frame.size() > mtu) return transmit_other(std::move(frame));
  dhcp.from_host(frame, mtu, now);
  const auto hop = next_hop(*header);
  if (!hop) {
    frame.release();
    return out.counters.add(Counter::drop_bad_destination);
  }
  Neighbour* const neighbour = neighbours.find(*hop);
  if (neighbour == nullptr) return transmit_unknown(std::move(frame), *hop, now);
  encapsulate(frame);
  if (!neighbour->forward(frame, out.sends, now)) {
    neighbours.packet(*neighbour, std::move(frame), now);
  }
}

/// RFC 4391, 10: whoever is not in a group joins it to send.
void Link::Parts::transmit_multicast(Frame&& frame, const Gid& mgid, bool routable, TimePoint now) {
  if (const Group* const joined = groups.joined(mgid)) return joined->send(std::move(frame), out);
  send_groups.send(mgid, std::move(frame), routable, now);
}

/// Groups are on the link, whatever routes say.
std::optional<Ipv4Address> Link::Parts::next_hop(const wire::Ipv4Header& header) {
  const Ipv4Address to = header.destination;
  if (!next_hops.has_gateways() || to.is_multicast() || to.is_limited_broadcast()) return to;
  const IpAddress hop = next_hops.find(header.source, to);
  const auto* const ipv4 = std::get_if<Ipv4Address>(&hop);
  return ipv4 == nullptr ? std::nullopt : std::optional(*ipv4);
}

/// What is not an IPv4 packet that fits.
void Link::Parts::transmit_other(Frame&& frame) {
  Frame dropped = std::move(frame);
  if (wire::ip_version(dropped.bytes()) == 6) {
    out.counters.add(Counter::drop_ipv6_not_supported);
  } else if (wire::Ipv4Header::parse(dropped.bytes())) {
    answer_too_big(std::move(dropped), mtu, Counter::drop_packet_too_big, out);
  } else {
    out.counters.add(Counter::drop_malformed_packet);
  }
}

/// RFC 4391, 4 and 5: the limited broadcast and those directed to a subnet go to the broadcast
/// group, class D addresses to their own; the others are neighbours to be.
void Link::Parts::transmit_unknown(Frame&& frame, Ipv4Address destination, TimePoint now) {
  Frame taken = std::move(frame);
  encapsulate(taken);
  if (host.is_broadcast(destination)) return groups.broadcast().send(std::move(taken), out);
  if (destination.is_multicast()) {
    const auto packet = std::as_const(taken).bytes().subspan(wire::kEncapsulationSize);
    if (packet[kProtocolOffset] == kIgmp) out.events.emplace_back(HostGroupsChanged{});
    return transmit_multicast(std::move(taken),
                              wire::multicast_gid(destination, config.pkey, config.scope),
                              is_routable(destination), now);
  }
  if (!host.is_neighbour(destination)) return out.counters.add(Counter::drop_bad_destination);
  if (neighbours.unresolved() >= config.limits.unresolved) {
    return out.counters.add(Counter::drop_unresolved_limit);
  }
  // Before room is made for it at somebody else's cost.
  if (!arp.may_ask_first(now)) return out.counters.add(Counter::drop_arp_rate_limit);
  if (Neighbour* const neighbour = neighbours.create(destination)) {
    return neighbours.packet(*neighbour, std::move(taken), now);
  }
  out.counters.add(Counter::drop_neighbour_limit);
}

}  // namespace ipoib::link
