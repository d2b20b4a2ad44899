// Everything that can be tuned in a client of the subnet administrator, and every bound of it.
#pragma once

#include <chrono>
#include <cstddef>

#include "ipoib/time.hpp"

namespace ipoib::sa {

/// How often a question is put, and how long each time. Time-outs and pauses double from their
/// first value up to their last; a pause is jittered, half to one and a half of its value, so that
/// the hosts of a subnet do not ask in step.
struct Retry {
  unsigned attempts = 4;
  Duration first_timeout = std::chrono::milliseconds(250);
  Duration last_timeout = std::chrono::seconds(2);
  Duration first_pause = std::chrono::milliseconds(100);
  Duration last_pause = std::chrono::seconds(1);
};

struct Config {
  Retry path;
  /// Joins and leaves: the administrator may have to program switches before it answers.
  Retry membership{.first_timeout = std::chrono::milliseconds(500),
                   .last_timeout = std::chrono::seconds(4)};
  std::size_t window = 32;         ///< requests in flight; the others wait their turn
  std::size_t max_waiting = 1024;  ///< questions beyond the window; one more is refused
  /// How long a question waits for a subnet manager; with 0 it fails at once without one.
  Duration patience_without_sm = std::chrono::seconds(5);
  /// A port reports time-outs itself; this much later a request is given up without a report.
  Duration port_grace = std::chrono::seconds(1);
};

}  // namespace ipoib::sa
