// Everything that can be tuned in a client of the subnet administrator, and every bound of it.
#pragma once

#include <chrono>
#include <cstddef>

#include "ipoib/backoff.hpp"
#include "ipoib/time.hpp"

namespace ipoib::sa {

/// How often a question is put, how long an answer is awaited each time, and how long nothing is
/// done after that: a pause is jittered, half to one and a half of its value, so that the hosts of
/// a subnet do not ask in step.
struct Patience {
  unsigned attempts = 4;
  Backoff timeout{std::chrono::milliseconds(250), std::chrono::seconds(2)};
  Backoff pause{std::chrono::milliseconds(100), std::chrono::seconds(1)};
  /// How long a question waits for a subnet manager; with 0 it fails at once without one.
  Duration without_sm = std::chrono::seconds(5);
};

struct Config {
  Patience path;
  /// Joins and leaves: the administrator may have to program switches before it answers.
  Patience membership{.timeout = {std::chrono::milliseconds(500), std::chrono::seconds(4)}};
  /// Who is in a group: somebody waits before a screen, and the answer may be long.
  Patience members{.attempts = 2,
                   .timeout = {std::chrono::seconds(1), std::chrono::seconds(1)},
                   .without_sm = {}};
  std::size_t window = 32;         ///< requests in flight; the others wait their turn
  std::size_t max_waiting = 1024;  ///< questions beyond the window; one more is refused
  /// A port reports time-outs itself; this much later a request is given up without a report.
  Duration port_grace = std::chrono::seconds(1);
};

}  // namespace ipoib::sa
