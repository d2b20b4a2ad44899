// Counters of each node's port. They are kept in the fabric file, so they outlive processes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "softib/subnet/performance.hpp"

namespace softib::fabric {

enum class PortCounter : std::uint8_t {
  sent_packets,
  sent_bytes,
  received_packets,
  received_bytes,
  multicast_copies,      ///< packets replicated by the sender, one for each receiving process
  drop_malformed,        ///< not a UD packet, or inconsistent lengths
  drop_port_not_active,  ///< our port or the destination's
  drop_unknown_lid,      ///< no node, or no group, has the destination LID
  drop_routing_loop,     ///< the tables of the switches lead in a circle
  drop_unreachable,      ///< of an Ethernet port: no route
  drop_too_long,         ///< of an Ethernet port: a router on the path takes only shorter packets
  drop_empty_slot,       ///< no process has the slot that the destination QPN names
  drop_congested,        ///< the receiver has not read what was sent before, or there was no memory
  drop_lost_peer,        ///< the receiver died before it read the packet
  drop_no_receiver,      ///< the receiving process has not opened the device
  drop_unknown_qp,       ///< no such queue pair, or one that does not receive
  drop_qkey,
  drop_pkey,
  drop_no_receive,      ///< no receive was posted
  drop_not_attached,    ///< no queue pair is attached to the multicast GID
  drop_mad_no_agent,    ///< a request for which no agent is registered
  drop_mad_no_request,  ///< a response without a pending request
  drop_mad_full,        ///< an agent's queue is full, or an RMPP limit is reached
  drop_link_fault,      ///< lost by a fault of the link that `softib set link` has set
  link_duplicates,      ///< packets that such a fault has duplicated
  drop_cable_fault,     ///< lost on the cable to the port, by `softib set cable`
  drop_icrc,            ///< received with a wrong ICRC: such a fault of the sender has flipped bits
  rc_retries,           ///< times that a reliable connection has sent again
  rc_rnr_naks,          ///< requests of a connection for which no receive was posted
  rc_srq_rnr_naks,      ///< the part of these whose shared receive queue was empty
  srq_limit_events,     ///< shared receive queues that fell below their limit
  cnps_sent,            ///< congestion notifications of connections of an Ethernet port
  cnps_received,        ///< of these
  rc_duplicates,        ///< requests of a connection that were received again
  rc_sequence_errors,   ///< requests of a connection of which an earlier packet was missing
  uc_dropped_messages,  ///< of unreliable connections: incomplete, or without a receive
  qp_errors,            ///< queue pairs that `softib set qp` has moved to the error state
  accept_paused,        ///< no descriptor was left for a new sender, which had to wait
  count_
};
inline constexpr std::size_t kPortCounters = static_cast<std::size_t>(PortCounter::count_);

/// Counters of a port of a switch, of packets that processes have sent through it. What leaves to a
/// node, or comes from one, is counted for the node.
enum class CableCounter : std::uint8_t {
  packets,               ///< sent to another switch
  bytes,                 ///< of these
  discards,              ///< not sent, since the other end was down
  receive_errors,        ///< received with errors: the cable has lost them
  transmit_constraints,  ///< not sent for their P_Key
  receive_constraints,   ///< dropped for their P_Key on arrival
  count_
};
inline constexpr std::size_t kCableCounters = static_cast<std::size_t>(CableCounter::count_);

using PortCounterValues = std::array<std::uint64_t, kPortCounters>;

/// The name in `softib show`, such as "drop_unknown_lid".
[[nodiscard]] std::string_view name(PortCounter counter);
/// The counters of performance management (IBA 16.1.3.5) that these are.
[[nodiscard]] subnet::PerformanceCounters performance_counters(const PortCounterValues& values);

}  // namespace softib::fabric
