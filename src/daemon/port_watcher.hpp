// Follows an HCA's port: its state, LID, GID, partition and subnet manager.
//
// An asynchronous event only says when to look; what is there is always queried anew, so one that
// was lost or came twice does no harm.
#pragma once

#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/mad_port.hpp"
#include "link/events.hpp"
#include "verbs/async_events.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

/// What a port is to its link.
[[nodiscard]] link::PortStatus port_status(const verbs::PortSnapshot& port);
/// Where the subnet administrator is; nothing while the port knows none, or cannot send.
[[nodiscard]] std::optional<MadDestination> subnet_administrator(const verbs::PortSnapshot& port);

class PortWatcher {
 public:
  struct Findings {
    bool changed = false;        ///< snapshot() differs from before
    bool reregister = false;     ///< the SM asks clients to register again
    bool device_failed = false;  ///< the HCA is gone or dead
  };

  /// Throws std::runtime_error when the device's event descriptor cannot be used. `device` and
  /// `log` must outlive this.
  PortWatcher(const verbs::Device& device, PKey pkey, Logger& log);

  /// Readable when an event waits.
  [[nodiscard]] int descriptor() const { return events_.descriptor(); }
  /// Takes the events at hand and looks at the port.
  [[nodiscard]] Findings update();
  [[nodiscard]] const verbs::PortSnapshot& snapshot() const { return snapshot_; }

 private:
  [[nodiscard]] bool look();

  const verbs::Device& device_;
  PKey pkey_;
  Logger& log_;
  verbs::AsyncEventReader events_;
  verbs::PortSnapshot snapshot_;
};

}  // namespace ipoib::daemon
