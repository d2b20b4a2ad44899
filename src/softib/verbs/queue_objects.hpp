// Those objects that programs get pointers to which are queues, or their channels.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <mutex>

#include "ipoib/time.hpp"
#include "softib/core/adaptive_mutex.hpp"
#include "softib/hca/hca.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/verbs/event_queue.hpp"
#include "softib/verbs/wakeup_policy.hpp"
#include "softib/verbs/wr_builder.hpp"

namespace softib::verbs {

struct Cq;

struct CompChannel : ibv_comp_channel {
  explicit CompChannel(transport::WakeupSocket socket)
      : ibv_comp_channel{}, events(std::move(socket)) {}
  EventQueue<Cq*> events;
  std::uint32_t wakeup_fd =
      transport::Waiter::kEngine;  ///< its number in the wakeup table; kEngine: it has none
};

struct Cq : ibv_cq_ex {
  hca::CompletionQueue* model = nullptr;
  // Used by ibv_start_poll().
  ibv_wc current{};
  ipoib::TimePoint current_time{};
  QueueWakeups wakeups;
  std::atomic<std::uint32_t> queued_events = 0;  ///< completion events that nobody has taken yet
  /// Events taken from the event queues; guarded by the locks of these.
  std::uint32_t completion_events_taken = 0;
  std::uint32_t async_events_taken = 0;
};

/// An XRC domain as programs see it. Several of one process refer to the same model if they were
/// opened with the same file.
struct Xrcd : ibv_xrcd {
  hca::XrcDomain* model = nullptr;
};

struct Srq : ibv_srq {
  hca::SharedReceiveQueue* model = nullptr;
  std::uint32_t async_events_taken = 0;  ///< as in Cq
};

struct Qp : ibv_qp_ex {
  hca::QueuePair* model = nullptr;
  AdaptiveMutex sending;  ///< held from posting until the batch is sent, to keep the order
  std::uint32_t async_events_taken = 0;
  bool extended = false;  ///< created with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
  WrBuilder builder;
};

}  // namespace softib::verbs
