// Which of two daemons serves an interface during a handover, when both have its TUN open.
#pragma once

#include <cstdint>

namespace ipoib::daemon {

/// Only an active pump changes the settings of the TUN.
enum class PumpMode : std::uint8_t {
  active,
  /// Another daemon serves the TUN still: nothing is sent, and what is received is dropped. The
  /// link comes up meanwhile.
  held,
  /// Another daemon serves the TUN already: the host gets what peers still send to this queue pair
  /// by unicast, and nothing else happens.
  retired,
};

}  // namespace ipoib::daemon
