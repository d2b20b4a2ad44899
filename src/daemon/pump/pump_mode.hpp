// Which of several pumps serves the TUN of an interface: those of its two ports, or during a
// handover those of two daemons.
#pragma once

#include <cstdint>

namespace ipoib::daemon {

/// Only an active pump changes the settings of the TUN.
enum class PumpMode : std::uint8_t {
  active,
  /// Another daemon serves the TUN still: nothing is sent, and what is received is dropped. The
  /// link comes up meanwhile.
  held,
  /// The other port of the interface serves it: nothing is sent. The link comes up and stays so.
  /// The host gets what peers still send to this queue pair by unicast.
  standby,
  /// Another daemon serves the TUN already: the host gets what peers still send to this queue pair
  /// by unicast, and nothing else happens.
  retired,
};

}  // namespace ipoib::daemon
