// Events of an emulated HCA.
#pragma once

#include <infiniband/verbs.h>

#include <variant>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib::hca {

class CompletionQueue;
class QueuePair;

/// The event that was requested by CompletionQueue::arm().
struct CompletionEvent {
  CompletionQueue* cq;
};
/// An asynchronous event of the completion queue, of the queue pair, or (both null) of the port.
struct AsyncEvent {
  ibv_event_type type;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
};
using HcaEvent = std::variant<CompletionEvent, AsyncEvent>;

/// The events to raise when a port changes, in this order.
[[nodiscard]] std::vector<ibv_event_type> port_events(const PortAttributes& before,
                                                      const PortAttributes& now);

}  // namespace softib::hca
