// The parameters that the two sides of a connection have agreed on, as the local queue pair needs
// them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire/cm_messages.hpp"
#include "wire/path_record.hpp"

namespace softib::cm {

/// Complete when the connection has been accepted: on the active side by Accepted, on the passive
/// side by accept(). Before that, the passive side has those of the REQ.
struct QpParameters {
  ipoib::wire::CmTransport transport = ipoib::wire::CmTransport::reliable;
  ipoib::wire::PathRecord
      path;  ///< from this port to the peer's; its MTU is that of the connection
  ipoib::Qpn remote_qpn;
  ipoib::wire::Psn rq_psn;               ///< of what the peer sends
  ipoib::wire::Psn sq_psn;               ///< of what the local queue pair sends
  std::uint8_t responder_resources = 0;  ///< max_dest_rd_atomic
  std::uint8_t initiator_depth = 0;      ///< max_rd_atomic
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t ack_timeout = 0;  ///< code

  friend bool operator==(const QpParameters&, const QpParameters&) = default;
};

/// Local ACK Timeout (IBA 12.6.5): the code of twice the lifetime of a packet plus the delay of an
/// acknowledgement. The sum of two powers of two counts as the larger one, or as twice that if the
/// other is at least half of it.
[[nodiscard]] constexpr std::uint8_t ack_timeout_of(std::uint8_t packet_lifetime,
                                                    std::uint8_t ack_delay) {
  const unsigned round_trip = packet_lifetime + 1U;
  const unsigned more = std::max<unsigned>(round_trip, ack_delay);
  const unsigned less = std::min<unsigned>(round_trip, ack_delay);
  constexpr unsigned kMaxCode = 31;
  return static_cast<std::uint8_t>(std::min(more + (less + 1 >= more ? 1 : 0), kMaxCode));
}

/// The path of a REQ from the passive side to the active one.
[[nodiscard]] ipoib::wire::PathRecord path_back(const ipoib::wire::CmReq& req);
/// The path in a REQ of the active side. `ack_delay` is a code of the local HCA.
[[nodiscard]] ipoib::wire::CmPath path_of_req(const ipoib::wire::PathRecord& path,
                                              std::uint8_t ack_delay);

}  // namespace softib::cm
