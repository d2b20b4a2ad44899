#include "softib/hca/work_completion.hpp"

#include <cassert>

#include "softib/core/network_order.hpp"
#include "softib/hca/queue_pair.hpp"

namespace softib::hca {

void Completions::complete_send(QueuePair& qp, ibv_wc_status status) {
  auto& sends = qp.sends();
  assert(sends.waiting() != 0);
  const auto& request = sends.at(sends.processed());
  sends.advance(1);
  // Errors are always reported (IBA 10.7.3.1).
  if (status == IBV_WC_SUCCESS && !request.signalled) return;
  auto& cq = *qp.config().send_cq;
  auto& wc = cq.next();
  wc.wr_id = request.id;
  wc.status = status;
  wc.opcode = request.opcode;
  wc.byte_len = status == IBV_WC_SUCCESS ? request.length : 0;
  wc.qp_num = qp.number().value();
  push(cq, qp, &sends, false);
}

void Completions::fail_send(QueuePair& qp, ibv_wc_status status) {
  ++counters_.send_errors;
  qp.set_state(IBV_QPS_SQE);
  complete_send(qp, status);
}

ibv_wc& Completions::begin_receive(QueuePair& qp, ReceiveQueue& queue, ibv_wc_status status,
                                   ibv_wc_opcode opcode) {
  assert(queue.waiting() != 0);
  auto& wc = qp.receive_cq()->next();
  wc.wr_id = queue.at(queue.processed()).id;
  wc.status = status;
  wc.opcode = opcode;
  wc.qp_num = qp.number().value();
  queue.advance(1);
  return wc;
}

void Completions::complete_receive(QueuePair& qp, ReceiveQueue& queue, ibv_wc_status status,
                                   const ReceivedMessage& message) {
  auto& wc = begin_receive(qp, queue, status, message.opcode);
  if (status == IBV_WC_SUCCESS) {
    const auto& lrh = message.headers.lrh;
    wc.vendor_err = message.segment_size;
    wc.byte_len = message.bytes;
    wc.src_qp = message.source.value();
    wc.slid = lrh.slid.value();
    wc.sl = lrh.sl.value();
    wc.dlid_path_bits = qp.port_attributes().path_bits_of(lrh.dlid);
    wc.pkey_index = qp.pkey_index();
    wc.wc_flags = message.flags;
    if ((message.flags & IBV_WC_WITH_IMM) != 0) wc.imm_data = to_network(message.immediate);
    if ((message.flags & IBV_WC_WITH_INV) != 0) wc.invalidated_rkey = message.key;
  } else {
    ++counters_.receive_errors;
  }
  push_receive(qp, queue, message.headers.bth.solicited);
}

void Completions::flush_sends(QueuePair& qp) {
  if (qp.has_sends_in_flight()) return;
  while (qp.sends().waiting() != 0) complete_send(qp, IBV_WC_WR_FLUSH_ERR);
}

void Completions::flush_receives(QueuePair& qp) {
  for (auto* const queue : {&qp.receives(), qp.large_receives()}) {
    while (queue != nullptr && queue->waiting() != 0) {
      (void)begin_receive(qp, *queue, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
      push_receive(qp, *queue, false);
    }
  }
}

/// Moves a queue pair to ERR. Receives that other queue pairs share stay in their queue. This one
/// takes no more of them, which the program learns by an event (IBA 11.6.3.2, "Last WQE Reached").
void Completions::enter_error(QueuePair& qp) {
  const bool was_in_error = qp.state() == IBV_QPS_ERR;
  qp.set_state(IBV_QPS_ERR);
  flush_receives(qp);
  flush_sends(qp);
  if (qp.config().shared != nullptr && !was_in_error) {
    events_.raise(AsyncEvent{IBV_EVENT_QP_LAST_WQE_REACHED, nullptr, &qp});
  }
}

/// Completes a receive. One that was taken from a shared queue has made room there, so its
/// completion makes none.
void Completions::push_receive(QueuePair& qp, ReceiveQueue& queue, bool solicited) {
  const bool is_shared = qp.shared() != nullptr;
  if (is_shared) queue.retire(queue.processed() - 1);
  push(*qp.receive_cq(), qp, is_shared ? nullptr : &queue, solicited);
}

/// Adds the completion at cq.next(), of the request of `queue` that was processed last. `queue` is
/// null if polling the completion makes no room.
void Completions::push(CompletionQueue& cq, QueuePair& qp, WorkProgress* queue, bool solicited) {
  const auto pushed = cq.push(queue, queue != nullptr ? queue->processed() - 1 : 0, solicited);
  if (pushed == CompletionQueue::PushResult::stored) return;
  if (pushed == CompletionQueue::PushResult::stored_and_notify) {
    return events_.raise(CompletionEvent{&cq});
  }
  // "CQ Error ... Local Work Queue Catastrophic Error" (IBA 11.6.3.1): the completion queue stays
  // in error, and each queue pair that completes to it goes into ERR.
  if (pushed == CompletionQueue::PushResult::overrun) {
    ++counters_.cq_overruns;
    events_.raise(AsyncEvent{IBV_EVENT_CQ_ERR, &cq});
  }
  if (qp.state() == IBV_QPS_ERR) return;
  events_.raise(AsyncEvent{IBV_EVENT_QP_FATAL, nullptr, &qp});
  enter_error(qp);
}

}  // namespace softib::hca
