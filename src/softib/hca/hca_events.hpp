// What an emulated HCA tells unasked, and the rule that finds the events of a port.
#pragma once

#include <infiniband/verbs.h>

#include <variant>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib::hca {

class CompletionQueue;
class QueuePair;

/// A completion queue has what its consumer asked to be told of.
struct CompletionEvent {
  CompletionQueue* cq;
};
/// An asynchronous event: of the completion queue, of the queue pair, or (both null) of the port.
struct AsyncEvent {
  ibv_event_type type;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
};
using HcaEvent = std::variant<CompletionEvent, AsyncEvent>;

/// What the change of a port means to its clients, in the order in which they are to learn it.
[[nodiscard]] std::vector<ibv_event_type> port_events(const PortAttributes& before,
                                                      const PortAttributes& now);

}  // namespace softib::hca
