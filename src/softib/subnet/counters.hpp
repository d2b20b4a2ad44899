// What a Subnet counts.
#pragma once

#include <cstdint>

namespace softib::subnet {

/// What the subnet's own port has seen. Each MAD that comes in is counted once.
struct SubnetCounters {
  std::uint64_t answered = 0;             ///< SA and SMA requests, with whatever status
  std::uint64_t passed_on = 0;            ///< subnet management for the processes of an HCA
  std::uint64_t rmpp_control = 0;         ///< ACK, STOP and ABORT of transfers under way
  std::uint64_t report_acknowledged = 0;  ///< answers to reports, and repressed traps
  std::uint64_t drop_malformed = 0;       ///< no MAD of a class that is served here
  std::uint64_t drop_response = 0;        ///< an answer to no question of ours
  std::uint64_t drop_source = 0;          ///< from a LID of no node, or of one that is not active
  std::uint64_t drop_qkey = 0;            ///< without the Q_Key of QP1
  std::uint64_t drop_pkey = 0;            ///< in a partition that the two do not share
  std::uint64_t drop_sm_key = 0;          ///< with an SM_Key that is not ours
  std::uint64_t drop_m_key = 0;           ///< without the M_Key of a port that has one
  std::uint64_t drop_destination = 0;     ///< for a LID that nothing here answers for
  // Of what went out.
  std::uint64_t refused = 0;        ///< answers with a status other than 0
  std::uint64_t rmpp_resent = 0;    ///< segments sent again
  std::uint64_t rmpp_given_up = 0;  ///< transfers without acknowledgement, or aborted
  std::uint64_t over_limit = 0;     ///< refused since a bound was reached
};

}  // namespace softib::subnet
