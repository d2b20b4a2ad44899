// Packets that a port refuses by their P_Key or Q_Key: no event says so, only counters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/should_log.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

class Violations {
 public:
  /// Returns a line for the log for each counter that has grown since the last call; the longer it
  /// goes on, the fewer. The first call returns none: what was refused before the daemon started is
  /// not its concern.
  [[nodiscard]] std::vector<std::string> on_counters(const verbs::PortCounters& counters);

 private:
  class Growth {
   public:
    /// How many packets are to be logged; 0 for none.
    [[nodiscard]] std::uint64_t update(std::uint64_t counter);

   private:
    std::optional<std::uint64_t> last_;
    std::uint64_t unlogged_ = 0;
    FailureCount times_;
  };
  Growth by_pkey_;
  Growth by_qkey_;
};

}  // namespace ipoib::daemon
