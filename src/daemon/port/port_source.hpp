// Seam: what happens to a port of the daemon. Implemented by PortWatcher, and in memory by tests.
#pragma once

#include <vector>

#include "ipoib/backoff.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

class PortSource {
 public:
  struct Changes {
    bool changed = false;        ///< snapshot() has changed
    bool reregister = false;     ///< the SM asks for it, or has lost registrations
    bool device_failed = false;  ///< the HCA is gone or has failed
    std::vector<const void*> failed_objects = {};  ///< queue pairs and completion queues
  };

  virtual ~PortSource() = default;
  /// Readable when there are events.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// Reads pending events, up to a limit, and queries the port.
  [[nodiscard]] virtual Changes update() = 0;
  /// The result of the last successful query; empty before the first update().
  [[nodiscard]] virtual const verbs::PortSnapshot& snapshot() const = 0;
  /// Says whether the last query has failed, and when to try again.
  [[nodiscard]] virtual const Retry& retry() const = 0;
  /// Reads the port's counters, and logs that it has refused packets since the last call.
  virtual void report_violations() = 0;
};

}  // namespace ipoib::daemon
