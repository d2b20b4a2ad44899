// The first functions are the fast path; the others handle rare packets.
#include "link/transmitter.hpp"

#include <utility>

#include "ipoib/overloaded.hpp"
#include "link/fragments.hpp"
#include "link/nd_output.hpp"
#include "link/pipeline.hpp"
#include "wire/group_membership.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv4_fragments.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::link {
void Transmitter::transmit(std::span<Frame> batch, Hops hops, TimePoint now) {
  deps_.out.counters.add(Counter::tx_packets, batch.size());
  if (!deps_.bring_up.is_up()) {
    deps_.out.counters.add(Counter::drop_link_down, batch.size());
    for (Frame& frame : batch) frame.release();
    return;
  }
  for_each_pipelined<std::optional<Plan>>(
      deps_.neighbours, batch.size(), LookAhead::Depth::address_handle,
      [&](std::size_t at, std::optional<Plan>& plan) -> const IpAddress* {
        const ConstBytes packet = std::as_const(batch[at]).bytes();
        const bool is_chosen = !hops.empty() && hops[at];
        plan = is_chosen ? plan_for(packet, *hops[at]) : plan_for(packet);
        if (plan) plan->is_resolved = !hops.empty();
        return plan ? &plan->hop : nullptr;
      },
      [&](std::size_t at, const std::optional<Plan>& plan, Neighbour* known) {
        transmit_one(std::move(batch[at]), plan, known, now);
      });
}

/// Returns nullopt for anything but an IP packet.
std::optional<Transmitter::Plan> Transmitter::plan_for(ConstBytes packet) {
  if (wire::ip_version(packet) == 6) {
    const auto header = wire::Ipv6Header::parse(packet);
    if (!header) return std::nullopt;
    return Plan{wire::EtherType::ipv6, next_hop(packet, header->source, header->destination)};
  }
  const auto header = wire::Ipv4Header::parse(packet);
  if (!header) return std::nullopt;
  return Plan{wire::EtherType::ipv4, next_hop(packet, header->source, header->destination)};
}

/// Plans a packet whose next hop is known.
std::optional<Transmitter::Plan> Transmitter::plan_for(ConstBytes packet, const IpAddress& hop) {
  if (wire::ip_version(packet) == 6) {
    if (!wire::Ipv6Header::parse(packet)) return std::nullopt;
    return Plan{wire::EtherType::ipv6, hop};
  }
  if (!wire::Ipv4Header::parse(packet)) return std::nullopt;
  return Plan{wire::EtherType::ipv4, hop};
}

/// Sends one packet. The entry is looked up before the destination is classified, since there are
/// no entries for multicast, broadcast and own addresses.
void Transmitter::transmit_one(Frame&& frame, const std::optional<Plan>& plan, Neighbour* known,
                               TimePoint now) {
  if (!plan) {
    frame.release();
    return deps_.out.counters.add(Counter::drop_malformed_packet);
  }
  if (frame.datagram_size() > mtu_) return transmit_too_big(std::move(frame), *plan, now);
  const Purpose purpose =
      frame.is_large() ? Purpose::packet : complete_message(frame, plan->type, now);
  send(std::move(frame), *plan, purpose, known, std::nullopt, now);
}

void Transmitter::send(Frame&& frame, const Plan& plan, Purpose purpose, Neighbour* known,
                       std::optional<TimePoint> waits_since, TimePoint now) {
  Neighbour* const neighbour = deps_.neighbours.find(plan.hop, known);
  if (neighbour == nullptr) return transmit_unknown(std::move(frame), plan, waits_since, now);
  wire::emit_encapsulation(plan.type, frame.prepend(wire::kEncapsulationSize));
  if (!neighbour->forward(frame, deps_.out.sends, now)) {
    deps_.neighbours.packet(*neighbour, std::move(frame), now, purpose);
  }
}

/// Handles a packet that exceeds the link's MTU, since the host may have set a larger one.
void Transmitter::transmit_too_big(Frame&& frame, const Plan& plan, TimePoint now) {
  Frame taken = std::move(frame);
  if (!wire::may_fragment(std::as_const(taken).bytes())) {
    return deps_.icmp.too_big(std::move(taken), mtu_, Counter::drop_packet_too_big, now);
  }
  for (Frame& fragment : fragments_of(taken, mtu_, deps_.packets, deps_.out.counters)) {
    transmit_one(std::move(fragment), plan, nullptr, now);
  }
}

/// Completes DHCP and ND messages of the host, whose kernel knows no link-layer addresses. Large
/// packets are never such messages.
Purpose Transmitter::complete_message(Frame& frame, wire::EtherType type, TimePoint now) {
  if (type == wire::EtherType::ipv4) {
    deps_.dhcp.from_host(frame, mtu_, now);
  } else if (wire::is_neighbour_discovery(frame.bytes(), wire::upper_layer(frame.bytes()))) {
    return complete_discovery(frame);
  }
  return Purpose::packet;
}

/// The next hop of a packet. Multicast and limited broadcast destinations are on the link whatever
/// the routes say.
IpAddress Transmitter::next_hop(ConstBytes packet, const IpAddress& source,
                                const IpAddress& destination) {
  if (!deps_.next_hops.has_gateways()) return destination;
  const bool is_on_link =
      std::visit(Overloaded{
                     [](Ipv4Address to) { return to.is_multicast() || to.is_limited_broadcast(); },
                     [](const Ipv6Address& to) { return to.is_multicast(); },
                 },
                 destination);
  if (is_on_link) return destination;
  Flow flow{.source = source, .destination = destination};
  if (deps_.next_hops.needs_headers()) read_headers(packet, deps_.host, flow);
  return deps_.next_hops.find(flow);
}

/// Adds the link-layer options of RFC 4391, 9.3: the kernel knows no link-layer addresses.
Purpose Transmitter::complete_discovery(Frame& frame) {
  using wire::LinkLayerOption;
  using wire::NdType;
  const auto message = wire::NdMessage::parse(std::as_const(frame).bytes());
  if (!message) return Purpose::packet;
  switch (message->type) {
    case NdType::neighbour_advertisement:
      put_link_layer_option(frame, LinkLayerOption::target, deps_.own, mtu_);
      return Purpose::reply;
    case NdType::redirect: {
      const Neighbour* const target = deps_.neighbours.find(message->target);
      if (target == nullptr || target->route() == nullptr) break;
      put_link_layer_option(frame, LinkLayerOption::target, target->route()->hardware(), mtu_);
      break;
    }
    case NdType::neighbour_solicitation:
    case NdType::router_solicitation:
    case NdType::router_advertisement:
      // Without a source address the option "MUST NOT" be included (RFC 4861, 4.1 and 4.3).
      if (message->source.is_unspecified()) break;
      put_link_layer_option(frame, LinkLayerOption::source, deps_.own, mtu_);
      break;
  }
  return Purpose::packet;
}

/// Sends a packet without an entry: broadcast to the broadcast group, multicast to its own group
/// (RFC 4391, 4 and 5). For other destinations an entry is created, if a route leads to them.
void Transmitter::transmit_unknown(Frame&& frame, const Plan& plan,
                                   std::optional<TimePoint> waits_since, TimePoint now) {
  Frame taken = std::move(frame);
  const IpAddress& hop = plan.hop;
  const bool is_multicast = std::visit([](const auto& any) { return any.is_multicast(); }, hop);
  // IGMP and MLD reports are multicast.
  if (is_multicast && wire::changes_host_groups(std::as_const(taken).bytes())) {
    deps_.out.events.emplace_back(HostGroupsChanged{});
  }
  const auto* const ipv4 = std::get_if<Ipv4Address>(&hop);
  const bool is_broadcast = ipv4 != nullptr && deps_.host.is_broadcast(*ipv4);
  if (!plan.is_resolved && deps_.host.can_be_neighbour(hop) &&
      !is_covered(std::as_const(taken).bytes(), hop)) {
    return wait_for_route(std::move(taken), waits_since, now);
  }
  wire::emit_encapsulation(plan.type, taken.prepend(wire::kEncapsulationSize));
  if (is_broadcast) return deps_.groups.broadcast().send(std::move(taken), deps_.out);
  if (is_multicast) return deps_.multicast.send(hop, std::move(taken), now);
  if (Neighbour* const neighbour = create_neighbour(hop, now)) {
    deps_.neighbours.packet(*neighbour, std::move(taken), now);
  }
}

// --- Packets that no route covers ----------------------------------------------------------------

/// Whether a route leads to the next hop, which is the destination or a gateway. The prefixes of
/// the interface's addresses are routes as well; link-local addresses are always on the link (RFC
/// 4861, 5.1).
bool Transmitter::is_covered(ConstBytes packet, const IpAddress& hop) const {
  const auto covers = [&](const auto& header) {
    const IpAddress destination = header->destination;
    const auto* const ipv6 = std::get_if<Ipv6Address>(&destination);
    if (destination != hop || (ipv6 != nullptr && ipv6->is_link_local())) return true;
    Flow flow{.source = header->source, .destination = destination};
    if (deps_.next_hops.needs_headers()) read_headers(packet, deps_.host, flow);
    return deps_.next_hops.covers(flow);
  };
  if (wire::ip_version(packet) == 6) return covers(wire::Ipv6Header::parse(packet));
  return covers(wire::Ipv4Header::parse(packet));
}

/// Lets a packet that no route covers wait for one, and refuses it at the deadline. The kernel
/// sends such a packet only if its sender is bound to the interface: it then takes any IPv4
/// destination to be on the link. If the link solicited each of these addresses, a scan or a stale
/// route would fill it with solicitations.
void Transmitter::wait_for_route(Frame&& frame, std::optional<TimePoint> waits_since,
                                 TimePoint now) {
  Frame taken = std::move(frame);
  if (!waits_since) deps_.out.counters.add(Counter::route_waits);
  const TimePoint since = waits_since.value_or(now);
  if (now < deps_.unrouted.deadline_of(since)) {
    return deps_.unrouted.park({std::move(taken), since}, deps_.out.counters);
  }
  deps_.icmp.no_route(std::move(taken), now);
}

void Transmitter::retry(TimePoint now) {
  if (deps_.unrouted.empty()) return;
  for (auto& [frame, since] : deps_.unrouted.take()) {
    const auto plan = plan_for(std::as_const(frame).bytes());
    if (!plan) continue;  // impossible: it had one
    send(std::move(frame), *plan, Purpose::packet, nullptr, since, now);
  }
}

Neighbour* Transmitter::create_neighbour(const IpAddress& address, TimePoint now) {
  const auto refused = [this](Counter why) -> Neighbour* {
    deps_.out.counters.add(why);
    return nullptr;
  };
  if (!deps_.host.can_be_neighbour(address)) return refused(Counter::drop_bad_destination);
  if (deps_.neighbours.count(EvictionClass::unresolved) >= deps_.config.limits.unresolved) {
    return refused(Counter::drop_unresolved_limit);
  }
  // This is checked first, since create() may evict another entry.
  if (!deps_.solicitor.may_solicit_first(now)) return refused(Counter::drop_solicitation_limit);
  Neighbour* const created = deps_.neighbours.create(address, Purpose::packet);
  return created != nullptr ? created : refused(Counter::drop_neighbour_limit);
}

void Transmitter::solicit(const IpAddress& address, TimePoint now) {
  if (!deps_.bring_up.is_up()) return;
  Neighbour* neighbour = deps_.neighbours.find(address);
  if (neighbour == nullptr) neighbour = create_neighbour(address, now);
  if (neighbour != nullptr) deps_.neighbours.solicit(*neighbour, now);
}

}  // namespace ipoib::link
