// Seam: a UdPort with what the loop of an interface needs besides packets: sleeping until a
// completion, and recovering from errors. Implemented by UdQueuePair, and in memory by tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ipoib/ud_port.hpp"
#include "verbs/ud_values.hpp"

namespace ipoib::verbs {

class RecoverableUdPort : public UdPort {
 public:
  /// Requests an event for the next completion. Earlier completions raise none: call receive() once
  /// more before sleeping.
  virtual void arm() = 0;
  /// Reads and acknowledges all pending events.
  virtual void acknowledge_events() = 0;

  /// Whether a completion or verb has failed.
  [[nodiscard]] virtual bool is_broken() const = 0;
  /// The device has reported an error of a queue pair or completion queue, as the events of
  /// AsyncEventReader name them. Breaks this port if the object is its own.
  virtual void on_object_failed(const void* object) = 0;
  /// Brings the queue pair down and up again, with the same attributes.
  [[nodiscard]] virtual Result<void> restart() = 0;
  /// Replaces queue pair and completion queue with new ones; the queue pair is in RESET and
  /// attached to the same groups. If the device does not destroy the old queue pair, it stays, and
  /// keeps its frames.
  [[nodiscard]] virtual Result<void> recreate() = 0;

  /// Progress of the posted sends. With at least kSignalPeriod in flight, one of them is signalled,
  /// so `completed` has to grow.
  struct SendProgress {
    std::uint64_t completed = 0;  ///< ever, including those that were flushed
    std::size_t in_flight = 0;
  };
  [[nodiscard]] virtual SendProgress send_progress() const = 0;
  [[nodiscard]] virtual const UdCounters& counters() const = 0;
};

}  // namespace ipoib::verbs
