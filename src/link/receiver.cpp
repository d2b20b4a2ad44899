#include "link/receiver.hpp"

#include <utility>

#include "link/pipeline.hpp"
#include "wire/encapsulation.hpp"
#include "wire/icmp_error.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::link {
namespace {

/// Sets the source address if the packet is of the version that its encapsulation header says. The
/// host's kernel checks the rest.
void read_source(ConstBytes packet, wire::EtherType type, std::optional<IpAddress>& source) {
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

}  // namespace

void Receiver::receive(std::span<Incoming> batch, TimePoint now) {
  if (!deps_.bring_up.is_up()) {
    for (Incoming& datagram : batch) {
      deps_.out.counters.add(Counter::drop_not_up, datagram.frame.datagrams());
      datagram.frame.release();
    }
    return;
  }
  for_each_pipelined<Plan>(
      deps_.neighbours, batch.size(), LookAhead::Depth::path,
      [&](std::size_t at, Plan& plan) { return prepare(batch[at].frame, plan); },
      [&](std::size_t at, const Plan& plan, Neighbour* known) {
        receive_one(batch[at], plan, known, now);
        batch[at].frame.release();
      });
}

/// Parses the IP header, once for all later stages. Fills the plan in place, which avoids a
/// store-forwarding stall.
const IpAddress* Receiver::prepare(Frame& frame, Plan& plan) {
  plan.type = wire::parse_encapsulation(frame.bytes());
  plan.source.reset();
  if (plan.type != wire::EtherType::ipv4 && plan.type != wire::EtherType::ipv6) return nullptr;
  const ConstBytes packet = frame.bytes().subspan(wire::kEncapsulationSize);
  read_source(packet, *plan.type, plan.source);
  if (!plan.source) return nullptr;
  frame.set_upper_layer(wire::upper_layer(packet));
  return &*plan.source;
}

void Receiver::receive_one(Incoming& datagram, const Plan& plan, Neighbour* known, TimePoint now) {
  if (!is_ours(datagram, now)) return;
  if (!plan.type) {
    const bool too_short = datagram.frame.size() < wire::kEncapsulationSize;
    return deps_.out.counters.add(too_short ? Counter::drop_malformed_datagram
                                            : Counter::drop_unsupported_type);
  }
  switch (*plan.type) {
    case wire::EtherType::ipv4:
    case wire::EtherType::ipv6:
      return receive_ip(datagram, plan, known, now);
    case wire::EtherType::arp:
      return deps_.input.receive_arp(datagram, now);
    case wire::EtherType::rarp:
      return deps_.out.counters.add(Counter::drop_unsupported_type);
  }
}

/// Whether a datagram is for this host. The HCA loops multicast back to its sender, which is
/// recognised by QPN, LID and GID. Groups may share an MLID, so the GRH identifies the group; a
/// datagram without GRH is unicast.
bool Receiver::is_ours(const Incoming& datagram, TimePoint now) {
  const PortStatus& port = deps_.bring_up.port();
  const Lid from = base_lid(datagram.source_lid, port.lmc);
  if (datagram.source_qpn == deps_.own.qpn && from == port.lid &&
      (!datagram.has_grh || datagram.source_gid == deps_.own.gid)) {
    deps_.out.counters.add(Counter::multicast_looped_back, datagram.frame.datagrams());
    return false;
  }
  if (!datagram.has_grh || !datagram.destination_gid.is_multicast()) return true;
  const Group* const group = deps_.groups.joined(datagram.destination_gid);
  if (group == nullptr) {
    deps_.out.counters.add(Counter::drop_foreign_group);
    return false;
  }
  // The HCA loops back what another program on this port sends, so that proves no membership.
  if (group == &deps_.groups.broadcast() && from != port.lid) {
    deps_.groups.on_broadcast_heard(from, now);
  }
  return true;
}

void Receiver::receive_ip(Incoming& datagram, const Plan& plan, Neighbour* known, TimePoint now) {
  if (!plan.source) return deps_.out.counters.add(Counter::drop_malformed_datagram);
  const IpAddress& source = *plan.source;
  datagram.frame.drop_front(wire::kEncapsulationSize);
  if (plan.type == wire::EtherType::ipv6 &&
      wire::is_neighbour_discovery(datagram.frame.bytes(), datagram.frame.upper_layer())) {
    if (!deps_.input.receive_discovery(datagram, now)) return;
    known = nullptr;  // the update may have evicted that entry
  }
  const bool is_checked = source == checked_.address && datagram.source_qpn == checked_.qpn &&
                          datagram.source_lid == checked_.lid;
  if (!is_checked) {
    if (const Neighbour* const sender = deps_.neighbours.find(source, known)) {
      deps_.input.check_source(*sender, datagram, now);
    }
    checked_ = {source, datagram.source_qpn, datagram.source_lid};
  }
  if (plan.type == wire::EtherType::ipv4) {
    deps_.dhcp.from_fabric(datagram.frame, now);
    if (wire::is_icmp_redirect(datagram.frame.bytes(), datagram.frame.upper_layer())) {
      deps_.reports.redirect_received(now);
    }
  }
  deps_.out.counters.add(Counter::rx_packets, datagram.frame.datagrams());
  deps_.out.to_host.push_back(std::move(datagram.frame));
}

}  // namespace ipoib::link
