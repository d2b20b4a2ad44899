// Counts MADs of other ports than the SA's, and logs them at a limited rate, since strangers can
// send them at any rate.
#pragma once

#include <cstdint>
#include <string_view>

#include "ipoib/log_fwd.hpp"
#include "ipoib/mad_port.hpp"
#include "ipoib/should_log.hpp"
#include "ipoib/time.hpp"

namespace ipoib::sa {

class ForeignMads {
 public:
  /// `log` outlives this. `pause` is the time between two lines of the log.
  ForeignMads(Logger& log, Duration pause) : log_(log), pause_(pause) {}

  /// Increments `counter` and logs `what`, which is "response" or "report".
  void drop(std::string_view what, std::uint64_t& counter, const MadDestination& from,
            TimePoint now);

 private:
  Logger& log_;
  LogPause pause_;
};

}  // namespace ipoib::sa
