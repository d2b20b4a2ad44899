// What each node's port has counted; kept in the fabric file, so it outlives the processes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace softib::fabric {

enum class PortCounter : std::uint8_t {
  sent_packets,
  sent_octets,
  received_packets,
  received_octets,
  multicast_copies,      ///< packets replicated by the sender, one for each receiving process
  drop_malformed,        ///< no UD packet, or lengths that disagree
  drop_port_not_active,  ///< our port, or the destination's
  drop_unknown_lid,      ///< no node, or no group, has the destination LID
  drop_empty_place,      ///< no process where the destination QPN points
  drop_congested,        ///< the receiver did not drain in time, or the system had no room
  drop_lost_peer,        ///< the receiver died with the packet on its way
  drop_no_receiver,      ///< nobody has opened the device in the receiving process
  drop_unknown_qp,       ///< no such queue pair, or one that does not receive
  drop_qkey,
  drop_pkey,
  drop_no_receive,      ///< no receive was posted
  drop_not_attached,    ///< no queue pair is attached to the multicast GID
  drop_mad_no_agent,    ///< a request for which no agent is registered
  drop_mad_no_request,  ///< a response to a request that nobody waits for
  drop_mad_full,        ///< an agent's queue, or a bound of RMPP
  accept_paused,        ///< a process had no descriptor left for a new sender, and let it wait
  count_
};
inline constexpr std::size_t kPortCounters = static_cast<std::size_t>(PortCounter::count_);

using PortCounterValues = std::array<std::uint64_t, kPortCounters>;

/// "drop_unknown_lid": the name in `softib show`.
[[nodiscard]] std::string_view name(PortCounter counter);

}  // namespace softib::fabric
