// Seam: what the interfaces of the daemon tell their owner, PortControl.
#pragma once

#include <string>

#include "daemon/interfaces/partition_interface.hpp"

namespace ipoib::daemon {

/// Owner of the interfaces.
class PortOwner {
 public:
  virtual ~PortOwner() = default;
  /// The last interface has ended. The reason is empty if stop() requested it.
  virtual void on_finished(const std::string& reason) = 0;
  /// Interfaces::status() has changed.
  virtual void on_status() = 0;
  /// See InterfaceOwner::on_mode().
  virtual void on_mode(InterfaceNumber interface, PumpMode mode) = 0;
  /// See InterfaceOwner::on_handover().
  virtual void on_handover(FileDescriptor connection) = 0;
};

}  // namespace ipoib::daemon
