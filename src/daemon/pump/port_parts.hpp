// Messages about the part of an interface on a port whose device has failed and was repaired.
#pragma once

#include "daemon/pump/port_role.hpp"

namespace ipoib::verbs {
class RecoverableUdPort;
}

namespace ipoib::daemon {

class Pump;

/// The device of a port was repaired after it had failed: the interface's part on the port is a new
/// one. PortReleased follows.
struct PortReplaced {
  PortRole role = PortRole::primary;
  Pump* pump = nullptr;  ///< in PumpMode::standby
  verbs::RecoverableUdPort* queue_pair = nullptr;
};
/// The interface's thread no longer uses a part that PortReplaced has replaced.
struct PortReleased {
  PortRole role = PortRole::primary;
};

}  // namespace ipoib::daemon
