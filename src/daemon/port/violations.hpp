// Packets that a port refuses by their P_Key or Q_Key: no event says so, only counters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verbs/device.hpp"

namespace ipoib::daemon {

class Violations {
 public:
  /// Returns a line for the log for each counter that has grown since the last call. The first call
  /// returns none: what was refused before the daemon started is not its concern.
  [[nodiscard]] std::vector<std::string> on_counters(const verbs::PortCounters& counters);

 private:
  std::optional<verbs::PortCounters> last_;
};

}  // namespace ipoib::daemon
