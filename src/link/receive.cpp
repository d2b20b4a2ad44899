// Fabric to host: what is ours, what is for the host, and what ARP says.
#include <chrono>
#include <utility>

#include "ipoib/log.hpp"
#include "link/arp_input.hpp"
#include "link/link.hpp"
#include "link/link_parts.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"

namespace ipoib::link {
namespace {

/// Between two lines in the log about duplicate addresses.
constexpr Duration kQuiet = std::chrono::seconds(10);
/// Where an IPv4 header has its source address.
constexpr std::size_t kSourceOffset = 12;

}  // namespace

void Link::from_fabric(std::span<Incoming> batch, TimePoint now) {
  Parts& p = *parts_;
  if (!p.bring_up.is_up()) {
    p.out.counters.add(Counter::drop_not_up, batch.size());
    for (Incoming& datagram : batch) datagram.frame.release();
    return;
  }
  for (Incoming& datagram : batch) p.receive(std::move(datagram), now);
}

void Link::Parts::receive(Incoming&& datagram, TimePoint now) {
  Incoming taken = std::move(datagram);
  if (!is_ours(taken)) return;
  const auto type = wire::parse_encapsulation(taken.frame.bytes());
  if (!type) {
    const bool too_short = taken.frame.size() < wire::kEncapsulationSize;
    return out.counters.add(too_short ? Counter::drop_malformed_datagram
                                      : Counter::drop_unsupported_type);
  }
  switch (*type) {
    case wire::EtherType::ipv4:
      return receive_ipv4(std::move(taken), now);
    case wire::EtherType::arp:
      return receive_arp(taken, now);
    case wire::EtherType::rarp:
      return out.counters.add(Counter::drop_unsupported_type);
    case wire::EtherType::ipv6:
      return out.counters.add(Counter::drop_ipv6_not_supported);
  }
}

/// Multicast comes back to its sender, who is known by QPN and LID. Groups may share an MLID, so
/// the GRH decides which group it was; without one it is unicast.
bool Link::Parts::is_ours(const Incoming& datagram) {
  if (datagram.source_qpn == qpn && datagram.source_lid == bring_up.port().lid) {
    out.counters.add(Counter::drop_own_multicast);
    return false;
  }
  if (datagram.has_grh && datagram.destination_gid.is_multicast() &&
      groups.joined(datagram.destination_gid) == nullptr) {
    out.counters.add(Counter::drop_foreign_group);
    return false;
  }
  return true;
}

void Link::Parts::receive_ipv4(Incoming&& datagram, TimePoint now) {
  Incoming taken = std::move(datagram);
  taken.frame.drop_front(wire::kEncapsulationSize);
  const ConstBytes packet = std::as_const(taken.frame).bytes();
  if (packet.size() < wire::Ipv4Header::kMinimumSize || wire::ip_version(packet) != 4) {
    return out.counters.add(Counter::drop_malformed_datagram);
  }
  const Ipv4Address source(load_be<std::uint32_t>(packet.data() + kSourceOffset));
  const bool seen = source == checked.address && taken.source_qpn == checked.qpn &&
                    taken.source_lid == checked.lid;
  if (!seen) {
    if (const Neighbour* const sender = neighbours.find(source)) check_source(*sender, taken, now);
    checked = {source, taken.source_qpn, taken.source_lid};
  }
  dhcp.from_fabric(taken.frame, now);
  out.counters.add(Counter::rx_packets);
  out.to_host.push_back(std::move(taken.frame));
}

/// Nobody signals that a peer's LID has changed; but its datagrams show it, where it is the peer's
/// queue pair, and port as far as the datagram says, that they are from.
void Link::Parts::check_source(const Neighbour& sender, const Incoming& datagram, TimePoint now) {
  const neighbour_state::Route* const route = sender.route();
  if (route == nullptr || route->hardware.qpn != datagram.source_qpn) return;
  if (datagram.has_grh && route->hardware.gid != datagram.source_gid) return;
  paths.on_source_lid(*route->path, datagram.source_lid, now);
}

// --- ARP -----------------------------------------------------------------------------------------

void Link::Parts::receive_arp(const Incoming& datagram, TimePoint now) {
  out.counters.add(Counter::arp_received);
  const auto arp_octets = datagram.frame.bytes().subspan(wire::kEncapsulationSize);
  const auto message = wire::Arp::parse(arp_octets);
  if (!message) return out.counters.add(Counter::drop_malformed_arp);
  const bool to_us_alone = !datagram.has_grh || !datagram.destination_gid.is_multicast();
  switch (judge(*message, host, arp.hardware())) {
    case ArpVerdict::bad_sender:
      return out.counters.add(Counter::drop_bad_arp_sender);
    case ArpVerdict::duplicate_address:
      return note_duplicate(*message, now);
    case ArpVerdict::probe:
      return answer_probe(*message, now);
    case ArpVerdict::mention:
      if (Neighbour* const known = neighbours.find(message->sender_protocol)) {
        learn(*known, *message, Evidence::told, datagram, now);
      }
      return;
    case ArpVerdict::reply_for_us:
      if (Neighbour* const sender = find_or_create(message->sender_protocol)) {
        learn(*sender, *message, to_us_alone ? Evidence::confirmed : Evidence::told, datagram, now);
      }
      return;
    case ArpVerdict::request_for_us:
      if (Neighbour* const sender = find_or_create(message->sender_protocol)) {
        learn(*sender, *message, Evidence::told, datagram, now);
        answer(*sender, *message, now);
      }
      return;
  }
}

Neighbour* Link::Parts::find_or_create(Ipv4Address address) {
  if (Neighbour* const known = neighbours.find(address)) return known;
  Neighbour* const made = neighbours.create(address);
  if (made == nullptr) out.counters.add(Counter::drop_neighbour_limit);
  return made;
}

void Link::Parts::learn(Neighbour& sender, const wire::Arp& message, Evidence evidence,
                        const Incoming& datagram, TimePoint now) {
  neighbours.address(sender, message.sender_hardware, evidence, now);
  check_source(sender, datagram, now);
}

/// RFC 826: "swap hardware and protocol fields", to the requester alone. It waits in the entry
/// while the path to the requester is asked for.
void Link::Parts::answer(Neighbour& requester, const wire::Arp& request, TimePoint now) {
  Frame reply = arp.make_reply(request);
  if (!reply) return;
  out.counters.add(Counter::arp_replies_sent);
  neighbours.reply_owed(requester, std::move(reply), now);
}

/// Somebody wants an address of ours for itself, and has none that it could be answered at.
void Link::Parts::answer_probe(const wire::Arp& request, TimePoint now) {
  if (!arp.admit_revalidation(now)) return;
  out.counters.add(Counter::arp_replies_sent);
  arp.broadcast_reply(request);
}

void Link::Parts::note_duplicate(const wire::Arp& message, TimePoint now) {
  out.counters.add(Counter::drop_duplicate_address);
  if (now < quiet_until) return;
  quiet_until = now + kQuiet;
  log.warn("duplicate address: {} is claimed by {}", message.sender_protocol.to_string(),
           message.sender_hardware.to_string());
}

}  // namespace ipoib::link
