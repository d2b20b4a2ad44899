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
  if (port_.state != PortState::active) return drop(counters_.drop_port, arrival.packets);
  if (arrival.longest > ipoib::wire::mtu_bytes(port_.mtu)) {
    return drop(counters_.drop_length, arrival.packets);
  }
  return true;
}

bool Admission::is_for_port(const Arrival& arrival) const {
  if (!port_.has(arrival.headers.lrh.dlid)) return drop(counters_.drop_lid, arrival.packets);
  if (!admits_route(port_, arrival.headers.grh)) return drop(counters_.drop_gid, arrival.packets);
  return true;
}

bool Admission::reaches(const QueuePair& qp, const Arrival& arrival) const {
  if (!qp.can_receive()) return drop(counters_.drop_qp_state, arrival.packets);
  if (qp.port() != port_.number) return drop(counters_.drop_port, arrival.packets);
  if (!shares_partition(qp, arrival.headers)) return drop(counters_.drop_pkey, arrival.packets);
  return true;
}

bool Admission::shares_partition(const QueuePair& qp, const ipoib::wire::DataPacket& packet) const {
  return port_.pkeys[qp.pkey_index()].admits(packet.bth.pkey);
}

bool Admission::leaves(const QueuePair& qp, std::size_t packets) const {
  if (port_.state != PortState::active || qp.port() != port_.number) {
    return drop(counters_.send_drop_port, packets);
  }
  if (!port_.pkeys[qp.pkey_index()].is_valid()) return drop(counters_.send_drop_pkey, packets);
  return true;
}

}  // namespace softib::hca
