#include "softib/hca/admission.hpp"

#include "softib/core/mad_packet.hpp"
#include "softib/hca/queue_pair.hpp"
#include "wire/sa_records.hpp"

namespace softib::hca {
namespace {

/// Counts packets that are dropped.
bool drop(std::uint64_t& counter, std::size_t packets) {
  counter += packets;
  return false;
}

}  // namespace

bool Admission::enters(const Arrival& arrival) const {
  if (ports_[arrival.port].state != PortState::active) {
    return drop(counters_.at(arrival.port).drop_port, arrival.packets);
  }
  if (arrival.longest > ipoib::wire::mtu_bytes(ports_[arrival.port].mtu)) {
    return drop(counters_.at(arrival.port).drop_length, arrival.packets);
  }
  return true;
}

bool Admission::is_for_port(const Arrival& arrival) const {
  const PortAttributes& port = ports_[arrival.port];
  if (!port.has(arrival.headers.lrh.dlid))
    return drop(counters_.at(arrival.port).drop_lid, arrival.packets);
  if (!admits_route(port, arrival.headers.grh))
    return drop(counters_.at(arrival.port).drop_gid, arrival.packets);
  return true;
}

bool Admission::reaches(const QueuePair& qp, const Arrival& arrival) const {
  if (!qp.can_receive()) return drop(counters_.at(arrival.port).drop_qp_state, arrival.packets);
  if (qp.port() != arrival.port) return drop(counters_.at(arrival.port).drop_port, arrival.packets);
  if (!shares_partition(qp, arrival.headers)) {
    note(CheckedKey::pkey, arrival, arrival.headers.bth.pkey.value());
    return drop(counters_.at(arrival.port).drop_pkey, arrival.packets);
  }
  return true;
}

bool Admission::admits(const QueuePair& qp, const Arrival& arrival, QKey key) const {
  if (qp.datagram().qkey == key) return true;
  note(CheckedKey::qkey, arrival, key.value());
  return drop(counters_.at(arrival.port).drop_qkey, arrival.packets);
}

/// Counts a violation at the port at which the packet has arrived.
void Admission::note(CheckedKey which, const Arrival& arrival, std::uint32_t key) const {
  const auto& headers = arrival.headers;
  KeyViolations& of = counters_.violations[arrival.port - 1U][which];
  of.packets += arrival.packets;
  of.last = key_violation(headers.lrh, headers.grh, key, arrival.source, headers.bth.destination);
}

bool Admission::shares_partition(const QueuePair& qp, const ipoib::wire::DataPacket& packet) const {
  const auto port = qp.port();
  return ports_.has(port) && ports_[port].pkeys[qp.pkey_index()].admits(packet.bth.pkey);
}

bool Admission::leaves(const QueuePair& qp, std::size_t packets) const {
  if (!ports_.has(qp.port()) || ports_[qp.port()].state != PortState::active) {
    return drop(counters_.at(qp.port()).send_drop_port, packets);
  }
  const PKey key = ports_[qp.port()].pkeys[qp.pkey_index()];
  if (!key.is_valid()) return drop(counters_.at(qp.port()).send_drop_pkey, packets);
  return true;
}

}  // namespace softib::hca
