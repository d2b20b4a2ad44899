// The kinds of events of an emulated HCA, and the list of those that are not reported to the
// program yet.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "softib/core/fabric_types.hpp"
#include "softib/hca/counters.hpp"

namespace softib::hca {

class CompletionQueue;
class QueuePair;
class SharedReceiveQueue;

/// The event that was requested by CompletionQueue::arm().
struct CompletionEvent {
  CompletionQueue* cq;
};
/// An asynchronous event of the object that is not null, or else of a port.
struct AsyncEvent {
  ibv_event_type type;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  SharedReceiveQueue* shared = nullptr;
  std::uint8_t port = 0;  ///< its number
};
using HcaEvent = std::variant<CompletionEvent, AsyncEvent>;

/// The event of a queue pair whose responder sends a NAK of this value (IBA 11.6.3.1).
[[nodiscard]] ibv_event_type event_of(std::uint8_t nak);
/// The events to raise when a port changes, in this order.
[[nodiscard]] std::vector<ibv_event_type> port_events(const PortAttributes& before,
                                                      const PortAttributes& now);

/// Pending events, in order.
class EventList {
 public:
  /// `counters` must outlive the list.
  explicit EventList(HcaCounters& counters) : counters_(counters) {}

  /// An event beyond kMaxPendingEvents is lost and counted.
  void raise(const HcaEvent& event);
  /// Removes the events of an object that is destroyed.
  void discard(const void* object);
  void clear() { events_.clear(); }
  [[nodiscard]] std::span<const HcaEvent> pending() const { return events_; }

 private:
  HcaCounters& counters_;
  std::vector<HcaEvent> events_;
};

}  // namespace softib::hca
