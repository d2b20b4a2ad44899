// Follows an HCA's port: its state, LID, GID, P_Key table and subnet manager.
//
// An asynchronous event only says when to look; what is there is always queried anew, so one that
// was lost or came twice does no harm.
#pragma once

#include <optional>
#include <string_view>

#include "ipoib/address.hpp"
#include "ipoib/backoff.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/mad_port.hpp"
#include "link/events.hpp"
#include "verbs/async_events.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

/// What a port is to the link of a partition.
[[nodiscard]] link::PortStatus port_status(const verbs::PortSnapshot& port, PKey partition);
/// Where the subnet administrator is: in the default partition (IBA 10.9.1.2). Nothing while the
/// port knows none, or cannot send.
[[nodiscard]] std::optional<MadDestination> subnet_administrator(const verbs::PortSnapshot& port);

/// The port as it was when it could be looked at last.
class PortView {
 public:
  explicit PortView(Logger& log) : log_(log) {}

  /// Takes in a look at the port `name`; true when it differs from before. One that failed changes
  /// nothing, and is to be repeated after retry().pause().
  [[nodiscard]] bool take(const Result<verbs::PortSnapshot>& look, std::string_view name);
  [[nodiscard]] const verbs::PortSnapshot& snapshot() const { return snapshot_; }
  [[nodiscard]] const Retry& retry() const { return retry_; }

 private:
  Logger& log_;
  Retry retry_;
  verbs::PortSnapshot snapshot_;
};

class PortWatcher {
 public:
  struct Findings {
    bool changed = false;        ///< snapshot() differs from before
    bool reregister = false;     ///< the SM asks clients to register again
    bool device_failed = false;  ///< the HCA is gone or dead
  };

  /// Throws std::runtime_error when the device's event descriptor cannot be used. `device` and
  /// `log` must outlive this. Knows nothing of the port before the first update().
  PortWatcher(const verbs::Device& device, Logger& log);

  /// Readable when an event waits.
  [[nodiscard]] int descriptor() const { return events_.descriptor(); }
  /// Takes the events at hand and looks at the port.
  [[nodiscard]] Findings update();
  /// As the last update() that could look at the port has found it.
  [[nodiscard]] const verbs::PortSnapshot& snapshot() const { return view_.snapshot(); }
  /// Failing when the last update() could not.
  [[nodiscard]] const Retry& retry() const { return view_.retry(); }

 private:
  const verbs::Device& device_;
  Logger& log_;
  verbs::AsyncEventReader events_;
  PortView view_;
};

}  // namespace ipoib::daemon
