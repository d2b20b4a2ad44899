// Watches an HCA's port: its state, LID, GID, P_Key table and subnet manager.
//
// Asynchronous events only trigger a query of the port, so that lost or repeated events do no harm.
#pragma once

#include <optional>
#include <string_view>

#include "daemon/port/port_source.hpp"
#include "daemon/port/violations.hpp"
#include "ipoib/address.hpp"
#include "ipoib/backoff.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/mad_port.hpp"
#include "link/events.hpp"
#include "verbs/async_events.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

/// The status of a port for the link of a partition.
[[nodiscard]] link::PortStatus port_status(const verbs::PortSnapshot& port, PKey partition);
/// Destination of requests to the SA, in the default partition (IBA 10.9.1.2). None while the port
/// has no subnet manager or cannot send.
[[nodiscard]] std::optional<MadDestination> sa_destination(const verbs::PortSnapshot& port);

/// The last state of the port that could be queried.
class PortView {
 public:
  explicit PortView(Logger& log) : log_(log) {}

  /// Takes over the result of a query of the port `name`. Returns whether the state has changed. A
  /// failed query changes nothing, and is to be repeated after retry().pause().
  [[nodiscard]] bool update(const Result<verbs::PortSnapshot>& query, std::string_view name);
  [[nodiscard]] const verbs::PortSnapshot& snapshot() const { return snapshot_; }
  [[nodiscard]] const Retry& retry() const { return retry_; }

 private:
  Logger& log_;
  Retry retry_;
  verbs::PortSnapshot snapshot_;
};

class PortWatcher final : public PortSource {
 public:
  /// Throws std::runtime_error if the device's event descriptor cannot be used. `device` and `log`
  /// outlive this.
  PortWatcher(const verbs::Device& device, Logger& log);

  [[nodiscard]] int descriptor() const override { return events_.descriptor(); }
  [[nodiscard]] Changes update() override;
  [[nodiscard]] const verbs::PortSnapshot& snapshot() const override { return view_.snapshot(); }
  [[nodiscard]] const Retry& retry() const override { return view_.retry(); }
  void report_violations() override;

 private:
  const verbs::Device& device_;
  Logger& log_;
  verbs::AsyncEventReader events_;
  PortView view_;
  Violations violations_;
};

}  // namespace ipoib::daemon
