// What an emulated HCA has seen, by reason.
#pragma once

#include <cstdint>

namespace softib::hca {

struct HcaCounters {
  std::uint64_t sent_packets = 0;
  std::uint64_t sent_octets = 0;       ///< of payload
  std::uint64_t send_errors = 0;       ///< sends that completed with an error of their own
  std::uint64_t send_drop_port = 0;    ///< sent while the port was not active
  std::uint64_t send_drop_pkey = 0;    ///< sent by a P_Key index without a P_Key
  std::uint64_t received_packets = 0;  ///< put into a posted receive
  std::uint64_t received_octets = 0;   ///< of payload
  std::uint64_t receive_errors = 0;    ///< receives that completed with an error of their own
  std::uint64_t drop_malformed = 0;
  std::uint64_t drop_length = 0;      ///< longer than the MTU of the port
  std::uint64_t drop_port = 0;        ///< came while the port was not active
  std::uint64_t drop_lid = 0;         ///< for another LID
  std::uint64_t drop_gid = 0;         ///< GRH for another port, or missing in a multicast
  std::uint64_t drop_unknown_qp = 0;  ///< no such queue pair, or of an earlier epoch
  std::uint64_t drop_qp_state = 0;    ///< the queue pair does not receive
  std::uint64_t drop_pkey = 0;
  std::uint64_t drop_qkey = 0;
  std::uint64_t drop_no_receive = 0;    ///< no receive was posted
  std::uint64_t drop_not_attached = 0;  ///< no queue pair is attached to the group
  std::uint64_t cq_overruns = 0;
  std::uint64_t lost_events = 0;  ///< beyond kMaxPendingEvents
};

}  // namespace softib::hca
