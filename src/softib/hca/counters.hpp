// Packet, drop and error counters of an emulated HCA.
#pragma once

#include <array>
#include <cstdint>

#include "softib/core/key_violation.hpp"

namespace softib::hca {

/// Those of a port, which its counters in the subnet show, too. They seldom change.
struct ReportedCounters {
  std::uint64_t send_drop_port = 0;  ///< the port was not active
  std::uint64_t send_drop_pkey = 0;  ///< no valid P_Key at the P_Key index
  std::uint64_t drop_malformed = 0;
  std::uint64_t drop_length = 0;      ///< longer than the MTU of the port
  std::uint64_t drop_port = 0;        ///< the port was not active
  std::uint64_t drop_lid = 0;         ///< DLID of another port
  std::uint64_t drop_gid = 0;         ///< GRH of another port, or none although required
  std::uint64_t drop_unknown_qp = 0;  ///< no such queue pair, or an earlier epoch
  std::uint64_t drop_qp_state = 0;    ///< state in which the queue pair does not receive
  std::uint64_t drop_pkey = 0;
  std::uint64_t drop_qkey = 0;
  std::uint64_t drop_no_receive = 0;    ///< no receive was posted
  std::uint64_t drop_not_attached = 0;  ///< no queue pair is attached to the group
  // Counters of reliable connections.
  std::uint64_t retries = 0;          ///< times that a requester has gone back
  std::uint64_t rnr_naks = 0;         ///< sent: no receive was posted
  std::uint64_t shared_rnr_naks = 0;  ///< of these, because a shared receive queue was empty
  std::uint64_t shared_limits = 0;    ///< events of shared receive queues that reached their limit
  std::uint64_t qp_errors = 0;  ///< queue pairs that `softib set qp` has moved to the error state
  std::uint64_t notifications_sent = 0;  ///< of congestion
  std::uint64_t notifications_received = 0;
  std::uint64_t duplicates = 0;       ///< requests that were received again
  std::uint64_t sequence_errors = 0;  ///< requests of which an earlier packet was missing
  // Counters of unreliable connections.
  std::uint64_t dropped_messages = 0;  ///< incomplete, without a receive, or not allowed
};

struct HcaCounters {
  std::array<ReportedCounters, kMaxHcaPorts> reported;  ///< by port; port 1 first
  /// Those of a port. What has none, 0, counts at the first one.
  [[nodiscard]] ReportedCounters& at(std::uint8_t port) { return reported[port > 1 ? 1 : 0]; }
  [[nodiscard]] const ReportedCounters& at(std::uint8_t port) const {
    return reported[port > 1 ? 1 : 0];
  }

  std::uint64_t sent_packets = 0;
  std::uint64_t sent_bytes = 0;        ///< of payload
  std::uint64_t send_errors = 0;       ///< sends completed with an error, without flushed ones
  std::uint64_t received_packets = 0;  ///< delivered to a posted receive
  std::uint64_t received_bytes = 0;    ///< of payload
  std::uint64_t receive_errors = 0;    ///< receives completed with an error, without flushed ones
  std::uint64_t cq_overruns = 0;
  std::uint64_t lost_events = 0;  ///< more than kMaxPendingEvents were pending
  /// What drop_pkey and drop_qkey count, by port; port 1 first.
  std::array<PortViolations, kMaxHcaPorts> violations;
};

}  // namespace softib::hca
