// Counters of a Subnet.
#pragma once

#include <cstdint>

namespace softib::subnet {

/// Each received MAD is counted in one of the counters up to drop_gid.
struct SubnetCounters {
  std::uint64_t answered = 0;             ///< requests responded to, with any status
  std::uint64_t passed_on = 0;            ///< SMPs forwarded to the processes of an HCA
  std::uint64_t rmpp_control = 0;         ///< ACK, STOP and ABORT of active transfers
  std::uint64_t report_acknowledged = 0;  ///< responses to reports, and repressed traps
  std::uint64_t drop_malformed = 0;       ///< not a MAD of a class handled here
  std::uint64_t drop_response = 0;        ///< a response to no request of ours
  std::uint64_t drop_source = 0;          ///< SLID of no node, or of a node that is not active
  std::uint64_t drop_qkey = 0;            ///< not the Q_Key of QP1
  std::uint64_t drop_pkey = 0;            ///< in a partition that both ends do not share
  std::uint64_t drop_sm_key = 0;          ///< wrong SM_Key
  std::uint64_t drop_m_key = 0;           ///< wrong M_Key
  std::uint64_t drop_destination = 0;     ///< DLID of no port of the subnet
  std::uint64_t drop_gid = 0;             ///< GRH of another port, or none although required
  // MADs that were sent.
  std::uint64_t refused = 0;        ///< responses with a status other than 0
  std::uint64_t rmpp_resent = 0;    ///< segments retransmitted
  std::uint64_t rmpp_given_up = 0;  ///< transfers that timed out or were aborted
  std::uint64_t over_limit = 0;     ///< requests refused because a limit was reached
  std::uint64_t drop_report = 0;    ///< reports to a port that does not respond to earlier ones
};

}  // namespace softib::subnet
