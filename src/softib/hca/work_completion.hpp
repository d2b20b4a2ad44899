// Completes the work requests of queue pairs (IBA 10.8.5, 11.4.2): writes completions, raises their
// events, and flushes the requests of a queue pair that fails.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "softib/core/fabric_types.hpp"
#include "softib/hca/completion_queue.hpp"
#include "softib/hca/counters.hpp"
#include "softib/hca/events.hpp"
#include "softib/hca/work_requests.hpp"
#include "wire/packet.hpp"

namespace softib::hca {

/// The fields of the completion of a receive that describe its message.
struct ReceivedMessage {
  const ipoib::wire::DataPacket& headers;  ///< of its last packet
  ibv_wc_opcode opcode = IBV_WC_RECV;
  Qpn source;
  std::uint32_t bytes = 0;
  unsigned flags = 0;              ///< IBV_WC_*
  std::uint32_t immediate = 0;     ///< with IBV_WC_WITH_IMM, in host order
  std::uint32_t key = 0;           ///< with IBV_WC_WITH_INV
  std::uint16_t segment_size = 0;  ///< of a large packet (softibdv.h)
};

class Completions {
 public:
  /// Both must outlive this object.
  Completions(EventList& events, HcaCounters& counters) : events_(events), counters_(counters) {}

  /// Completes the oldest send that is not complete. Requires that there is one.
  void complete_send(QueuePair& qp, ibv_wc_status status);
  /// Completes the oldest send with an error that moves the queue pair to SQE. The caller flushes
  /// the other sends.
  void fail_send(QueuePair& qp, ibv_wc_status status);
  /// Completes the oldest receive of `queue`, one of `qp`. Requires that there is one.
  void complete_receive(QueuePair& qp, ReceiveQueue& queue, ibv_wc_status status,
                        const ReceivedMessage& message);
  /// Flushes all sends, unless a batch of datagrams is being sent: those complete first.
  void flush_sends(QueuePair& qp);
  void flush_receives(QueuePair& qp);
  /// Moves the queue pair to ERR.
  void enter_error(QueuePair& qp);

 private:
  [[nodiscard]] static ibv_wc& begin_receive(QueuePair& qp, ReceiveQueue& queue,
                                             ibv_wc_status status, ibv_wc_opcode opcode);
  void push_receive(QueuePair& qp, ReceiveQueue& queue, bool solicited);
  void push(CompletionQueue& cq, QueuePair& qp, WorkProgress* queue, bool solicited);

  EventList& events_;
  HcaCounters& counters_;
};

}  // namespace softib::hca
