// Fabric to host: what is ours, what is for the host, and what ARP and Neighbour Discovery say.
#include <array>
#include <chrono>
#include <utility>

#include "ipoib/log.hpp"
#include "link/arp_input.hpp"
#include "link/link.hpp"
#include "link/link_parts.hpp"
#include "wire/encapsulation.hpp"
#include "wire/transport.hpp"

namespace ipoib::link {
namespace {

/// Between two lines in the log about duplicate addresses.
constexpr Duration kQuiet = std::chrono::seconds(10);

/// The source address, if the packet has the IP version that the encapsulation header announced;
/// the host checks the rest.
void take_source(ConstBytes packet, wire::EtherType type, std::optional<IpAddress>& source) {
  constexpr std::size_t kIpv4Offset = 12;
  constexpr std::size_t kIpv6Offset = 8;
  const bool is_ipv4 = type == wire::EtherType::ipv4;
  const std::size_t least = is_ipv4 ? wire::Ipv4Header::kMinimumSize : wire::Ipv6Header::kSize;
  if (packet.size() < least || wire::ip_version(packet) != (is_ipv4 ? 4 : 6)) return;
  ByteReader reader(packet.subspan(is_ipv4 ? kIpv4Offset : kIpv6Offset));
  if (is_ipv4) {
    source.emplace(Ipv4Address(reader.array<Ipv4Address::kSize>()));
  } else {
    source.emplace(Ipv6Address(reader.array<Ipv6Address::kSize>()));
  }
}

/// Writes to `arrival` in place, which avoids a store-forwarding stall.
void look_at(Frame& frame, Arrival& arrival) {
  arrival.type = wire::parse_encapsulation(frame.bytes());
  arrival.source.reset();
  if (arrival.type != wire::EtherType::ipv4 && arrival.type != wire::EtherType::ipv6) return;
  const ConstBytes packet = frame.bytes().subspan(wire::kEncapsulationSize);
  take_source(packet, *arrival.type, arrival.source);
  if (arrival.source) frame.set_upper_layer(wire::upper_layer(packet));
}

}  // namespace

void Link::from_fabric(std::span<Incoming> batch, TimePoint now) {
  Parts& p = *parts_;
  if (!p.bring_up.is_up()) {
    for (Incoming& datagram : batch) {
      p.out.counters.add(Counter::drop_not_up, datagram.frame.datagrams());
      datagram.frame.release();
    }
    return;
  }
  LookAhead ahead(p.neighbours, batch.size(), LookAhead::Depth::path);
  const std::size_t distance = ahead.distance();
  std::array<Arrival, 2 * LookAhead::kMaxDistance> arrivals;
  for (std::size_t turn = 0; turn < batch.size() + distance; ++turn) {
    Arrival& next = arrivals[turn % arrivals.size()];
    if (turn < batch.size()) {
      look_at(batch[turn].frame, next);
    } else {
      next.source.reset();
    }
    Neighbour* const known =
        distance > 0 ? ahead.turn(next.source ? &*next.source : nullptr) : nullptr;
    if (turn < distance) continue;
    const std::size_t at = turn - distance;
    p.receive(batch[at], arrivals[at % arrivals.size()], known, now);
    batch[at].frame.release();
  }
}

void Link::Parts::receive(Incoming& datagram, const Arrival& arrival, Neighbour* known,
                          TimePoint now) {
  if (!is_ours(datagram)) return;
  if (!arrival.type) {
    const bool too_short = datagram.frame.size() < wire::kEncapsulationSize;
    return out.counters.add(too_short ? Counter::drop_malformed_datagram
                                      : Counter::drop_unsupported_type);
  }
  switch (*arrival.type) {
    case wire::EtherType::ipv4:
    case wire::EtherType::ipv6:
      return receive_ip(datagram, arrival, known, now);
    case wire::EtherType::arp:
      return receive_arp(datagram, now);
    case wire::EtherType::rarp:
      return out.counters.add(Counter::drop_unsupported_type);
  }
}

/// Multicast comes back to its sender, who is known by QPN, LID and GID. Groups may share an MLID,
/// so the GRH decides which group it was; without one it is unicast.
bool Link::Parts::is_ours(const Incoming& datagram) {
  const PortStatus& port = bring_up.port();
  if (datagram.source_qpn == own.qpn && base_lid(datagram.source_lid, port.lmc) == port.lid &&
      (!datagram.has_grh || datagram.source_gid == own.gid)) {
    out.counters.add(Counter::drop_own_multicast, datagram.frame.datagrams());
    return false;
  }
  if (datagram.has_grh && datagram.destination_gid.is_multicast() &&
      groups.joined(datagram.destination_gid) == nullptr) {
    out.counters.add(Counter::drop_foreign_group);
    return false;
  }
  return true;
}

void Link::Parts::receive_ip(Incoming& datagram, const Arrival& arrival, Neighbour* known,
                             TimePoint now) {
  if (!arrival.source) return out.counters.add(Counter::drop_malformed_datagram);
  const IpAddress& source = *arrival.source;
  datagram.frame.drop_front(wire::kEncapsulationSize);
  if (arrival.type == wire::EtherType::ipv6 &&
      wire::is_neighbour_discovery(datagram.frame.bytes(), datagram.frame.upper_layer())) {
    if (!receive_discovery(datagram, now)) return out.counters.add(Counter::drop_malformed_nd);
    known = nullptr;  // what was learnt may have cost that entry its place
  }
  const bool seen = source == checked.address && datagram.source_qpn == checked.qpn &&
                    datagram.source_lid == checked.lid;
  if (!seen) {
    if (const Neighbour* const sender = neighbours.find(source, known)) {
      check_source(*sender, datagram, now);
    }
    checked = {source, datagram.source_qpn, datagram.source_lid};
  }
  if (arrival.type == wire::EtherType::ipv4) dhcp.from_fabric(datagram.frame, now);
  out.counters.add(Counter::rx_packets, datagram.frame.datagrams());
  out.to_host.push_back(std::move(datagram.frame));
}

/// Nobody signals that a peer's LID has changed; but its datagrams show it, where it is the peer's
/// queue pair, and port as far as the datagram says, that they are from.
void Link::Parts::check_source(const Neighbour& sender, const Incoming& datagram, TimePoint now) {
  const Route* const route = sender.route();
  if (route == nullptr || route->qpn != datagram.source_qpn) return;
  if (datagram.has_grh && route->path->gid() != datagram.source_gid) return;
  paths.on_source_lid(*route->path, datagram.source_lid, now);
}

// --- Neighbour Discovery -------------------------------------------------------------------------

/// Learns from a message, and takes out of it what the host's kernel would not understand. False:
/// it "MUST be silently discarded".
bool Link::Parts::receive_discovery(Incoming& datagram, TimePoint now) {
  out.counters.add(Counter::nd_received);
  const auto message = wire::NdMessage::parse(std::as_const(datagram.frame).bytes());
  if (!message) return false;
  if (const auto lesson = lesson_of(*message, host, own)) learn(*lesson, datagram, now);
  const std::size_t size = wire::strip_link_layer_options(datagram.frame.bytes());
  datagram.frame.window(datagram.frame.headroom(), size);
  return true;
}

void Link::Parts::learn(const NdLesson& lesson, const Incoming& datagram, TimePoint now) {
  Neighbour* const neighbour = lesson.makes_entry && lesson.hardware
                                   ? find_or_create(lesson.neighbour)
                                   : neighbours.find(lesson.neighbour);
  if (neighbour == nullptr) return;
  const Route* const known = neighbour->route();
  if (!lesson.hardware && known == nullptr) return;
  const HwAddress hardware = lesson.hardware ? *lesson.hardware : known->hardware();
  if (known != nullptr && !lesson.overrides && !known->leads_to(hardware)) {
    return neighbours.contradicted(*neighbour, now);
  }
  learn(*neighbour, hardware, lesson.evidence, datagram, now);
}

// --- ARP -----------------------------------------------------------------------------------------

void Link::Parts::receive_arp(const Incoming& datagram, TimePoint now) {
  out.counters.add(Counter::arp_received);
  const auto arp_octets = datagram.frame.bytes().subspan(wire::kEncapsulationSize);
  const auto message = wire::Arp::parse(arp_octets);
  if (!message) return out.counters.add(Counter::drop_malformed_arp);
  const bool to_us_alone = !datagram.has_grh || !datagram.destination_gid.is_multicast();
  switch (judge(*message, host, own)) {
    case ArpVerdict::bad_sender:
      return out.counters.add(Counter::drop_bad_arp_sender);
    case ArpVerdict::duplicate_address:
      return note_duplicate(*message, now);
    case ArpVerdict::probe:
      return answer_probe(*message, now);
    case ArpVerdict::mention:
      if (Neighbour* const known = neighbours.find(message->sender_protocol)) {
        learn(*known, message->sender_hardware, Evidence::unconfirmed, datagram, now);
      }
      return;
    case ArpVerdict::reply_for_us:
      if (Neighbour* const sender = find_or_create(message->sender_protocol)) {
        learn(*sender, message->sender_hardware,
              to_us_alone ? Evidence::confirmed : Evidence::unconfirmed, datagram, now);
      }
      return;
    case ArpVerdict::request_for_us:
      if (Neighbour* const sender = find_or_create(message->sender_protocol)) {
        learn(*sender, message->sender_hardware, Evidence::unconfirmed, datagram, now);
        answer(*sender, *message, now);
      }
      return;
  }
}

Neighbour* Link::Parts::find_or_create(const IpAddress& address) {
  if (Neighbour* const known = neighbours.find(address)) return known;
  Neighbour* const made = neighbours.create(address);
  if (made == nullptr) out.counters.add(Counter::drop_neighbour_limit);
  return made;
}

void Link::Parts::learn(Neighbour& sender, const HwAddress& hardware, Evidence evidence,
                        const Incoming& datagram, TimePoint now) {
  neighbours.address(sender, hardware, evidence, now);
  check_source(sender, datagram, now);
}

/// RFC 826: "swap hardware and protocol fields", to the requester alone. It waits in the entry
/// while the path to the requester is asked for.
void Link::Parts::answer(Neighbour& requester, const wire::Arp& request, TimePoint now) {
  Frame reply = arp.make_reply(request);
  if (!reply) return;
  out.counters.add(Counter::arp_replies_sent);
  neighbours.send_reply(requester, std::move(reply), now);
}

/// Somebody wants an address of ours for itself, and has none that it could be answered at.
void Link::Parts::answer_probe(const wire::Arp& request, TimePoint now) {
  if (!solicitor.admit_revalidation(now)) return;
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
