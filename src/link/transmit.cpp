// Host to fabric. The first functions are the data path; the others are for what is rare.
#include <array>
#include <utility>

#include "ipoib/overloaded.hpp"
#include "link/link.hpp"
#include "link/link_parts.hpp"
#include "link/too_big.hpp"
#include "wire/host_groups.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::link {
namespace {

/// 224.0.0.0/24 stays on the link (RFC 5771, 4).
bool is_routable(Ipv4Address group) { return (group.number() & 0xffffff00) != 0xe0000000; }

/// So does what has the scope of the link, or a smaller one (RFC 4291, 2.7).
bool is_routable(const Ipv6Address& group) { return (group.bytes()[1] & 0x0f) > 2; }

}  // namespace

void Link::from_host(std::span<Frame> batch, TimePoint now) {
  Parts& p = *parts_;
  p.out.counters.add(Counter::tx_packets, batch.size());
  if (!p.bring_up.is_up()) {
    p.out.counters.add(Counter::drop_link_down, batch.size());
    for (Frame& frame : batch) frame.release();
    return;
  }
  LookAhead ahead(p.neighbours, batch.size(), LookAhead::Depth::address_handle);
  const std::size_t distance = ahead.distance();
  std::array<std::optional<Transmission>, 2 * LookAhead::kMaxDistance> plans;
  for (std::size_t turn = 0; turn < batch.size() + distance; ++turn) {
    auto& next = plans[turn % plans.size()];
    next = turn < batch.size() ? p.plan_for(std::as_const(batch[turn]).bytes()) : std::nullopt;
    Neighbour* const known = distance > 0 ? ahead.turn(next ? &next->hop : nullptr) : nullptr;
    if (turn < distance) continue;
    const std::size_t at = turn - distance;
    p.transmit(std::move(batch[at]), plans[at % plans.size()], known, now);
  }
}

/// Nothing for what is no IP packet.
std::optional<Transmission> Link::Parts::plan_for(ConstBytes packet) {
  if (wire::ip_version(packet) == 6) {
    const auto header = wire::Ipv6Header::parse(packet);
    if (!header) return std::nullopt;
    return Transmission{wire::EtherType::ipv6, next_hop(header->source, header->destination)};
  }
  const auto header = wire::Ipv4Header::parse(packet);
  if (!header) return std::nullopt;
  return Transmission{wire::EtherType::ipv4, next_hop(header->source, header->destination)};
}

/// An entry is found before the destination is classified: no entry exists for a group, a
/// broadcast address, or an address of the host.
void Link::Parts::transmit(Frame&& frame, const std::optional<Transmission>& plan, Neighbour* known,
                           TimePoint now) {
  if (!plan) {
    frame.release();
    return out.counters.add(Counter::drop_malformed_packet);
  }
  if (frame.datagram_size() > mtu) {
    return answer_too_big(std::move(frame), mtu, Counter::drop_packet_too_big, out);
  }
  if (!frame.is_large()) complete_message(frame, plan->type, now);
  Neighbour* const neighbour = neighbours.find(plan->hop, known);
  if (neighbour == nullptr) return transmit_unknown(std::move(frame), plan->type, plan->hop, now);
  wire::emit_encapsulation(plan->type, frame.prepend(wire::kEncapsulationSize));
  if (!neighbour->forward(frame, out.sends, now)) {
    neighbours.packet(*neighbour, std::move(frame), now);
  }
}

/// Messages of hosts that know no link-layer addresses; none of them is ever cut into segments.
void Link::Parts::complete_message(Frame& frame, wire::EtherType type, TimePoint now) {
  if (type == wire::EtherType::ipv4) return dhcp.from_host(frame, mtu, now);
  if (wire::is_neighbour_discovery(frame.bytes(), wire::upper_layer(frame.bytes()))) {
    complete_discovery(frame);
  }
}

/// Groups are on the link, whatever routes say.
IpAddress Link::Parts::next_hop(const IpAddress& source, const IpAddress& destination) {
  if (!next_hops.has_gateways()) return destination;
  const bool is_for_many =
      std::visit(Overloaded{
                     [](Ipv4Address to) { return to.is_multicast() || to.is_limited_broadcast(); },
                     [](const Ipv6Address& to) { return to.is_multicast(); },
                 },
                 destination);
  return is_for_many ? destination : next_hops.find(source, destination);
}

/// The kernel knows no link-layer addresses: the options of RFC 4391, 9.3 are put in on the way.
void Link::Parts::complete_discovery(Frame& frame) {
  using wire::LinkLayerOption;
  using wire::NdType;
  const auto message = wire::NdMessage::parse(std::as_const(frame).bytes());
  if (!message) return;
  switch (message->type) {
    case NdType::neighbour_advertisement:
      return put_link_layer_option(frame, LinkLayerOption::target, own, mtu);
    case NdType::redirect: {
      const Neighbour* const target = neighbours.find(message->target);
      if (target == nullptr || target->route() == nullptr) return;
      return put_link_layer_option(frame, LinkLayerOption::target, target->route()->hardware(),
                                   mtu);
    }
    case NdType::neighbour_solicitation:
    case NdType::router_solicitation:
    case NdType::router_advertisement:
      // Who has no address yet "MUST NOT" say where it is (RFC 4861, 4.1 and 4.3).
      if (message->source.is_unspecified()) return;
      return put_link_layer_option(frame, LinkLayerOption::source, own, mtu);
  }
}

/// RFC 4391, 4 and 5: the limited broadcast and those directed to a subnet go to the broadcast
/// group, groups to their own; the others are neighbours to be.
void Link::Parts::transmit_unknown(Frame&& frame, wire::EtherType type, const IpAddress& hop,
                                   TimePoint now) {
  Frame taken = std::move(frame);
  const bool is_multicast = std::visit([](const auto& any) { return any.is_multicast(); }, hop);
  // Hosts tell of their groups by multicast.
  if (is_multicast && wire::changes_host_groups(std::as_const(taken).bytes())) {
    out.events.emplace_back(HostGroupsChanged{});
  }
  wire::emit_encapsulation(type, taken.prepend(wire::kEncapsulationSize));
  const auto* const ipv4 = std::get_if<Ipv4Address>(&hop);
  if (ipv4 != nullptr && host.is_broadcast(*ipv4)) {
    return groups.broadcast().send(std::move(taken), out);
  }
  if (is_multicast) return transmit_multicast(std::move(taken), hop, now);
  if (!host.can_be_neighbour(hop)) return out.counters.add(Counter::drop_bad_destination);
  if (neighbours.unresolved() >= config.limits.unresolved) {
    return out.counters.add(Counter::drop_unresolved_limit);
  }
  // Before room is made for it at somebody else's cost.
  if (!solicitor.may_ask_first(now)) return out.counters.add(Counter::drop_solicitation_limit);
  if (Neighbour* const neighbour = neighbours.create(hop)) {
    return neighbours.packet(*neighbour, std::move(taken), now);
  }
  out.counters.add(Counter::drop_neighbour_limit);
}

void Link::Parts::transmit_multicast(Frame&& frame, const IpAddress& group, TimePoint now) {
  std::visit(
      [&](const auto& any) {
        multicast.send(wire::multicast_gid(any, config.pkey, config.scope), std::move(frame),
                       is_routable(any), now);
      },
      group);
}

}  // namespace ipoib::link
