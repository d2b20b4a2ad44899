// The part of an interface on one port, as the interface's thread sees it: a pump and its queue
// pair.
//
// A queue pair that is broken, or whose sends do not complete (send_watchdog.hpp), is restarted, or
// replaced if the device refuses that. While this fails, the link is down, and it is tried again
// after a growing pause.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "daemon/pump/port_role.hpp"
#include "daemon/pump/port_selection.hpp"
#include "daemon/pump/pump.hpp"
#include "daemon/pump/send_watchdog.hpp"
#include "ipoib/backoff.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/trace.hpp"
#include "verbs/recoverable_ud_port.hpp"

namespace ipoib::daemon {

/// The part of an interface on its backup port.
struct BackupPort {
  PortName port;
  Pump& pump;  ///< in PumpMode::standby, or in that of the primary one if that is not active
  verbs::RecoverableUdPort& queue_pair;
  SelectionSettings selection;
};

class LinkPort {
 public:
  /// All of these outlive it.
  struct Dependencies {
    Pump& pump;
    verbs::RecoverableUdPort& queue_pair;
    TraceRing& trace;
    Logger& log;
  };
  LinkPort(PortName port, const Dependencies& dependencies)
      : name_(std::move(port)), dependencies_(dependencies) {}

  [[nodiscard]] const PortName& name() const { return name_; }
  [[nodiscard]] Pump& pump() { return dependencies_.pump; }
  [[nodiscard]] link::Link& link() { return dependencies_.pump.link(); }
  [[nodiscard]] const link::Link& link() const { return dependencies_.pump.link(); }
  [[nodiscard]] verbs::RecoverableUdPort& queue_pair() { return dependencies_.queue_pair; }
  [[nodiscard]] const link::PortStatus& status() const { return status_; }
  [[nodiscard]] PortHealth health() const;
  [[nodiscard]] std::uint64_t tx_timeouts() const { return tx_timeouts_; }

  void on_port(const link::PortStatus& status, TimePoint now);
  /// One turn of the pump, and the repair of the queue pair. Returns whether to call it again.
  bool turn(TimePoint now);
  /// Makes completions end the sleep that follows. Returns whether there were some meanwhile, so
  /// that there is more to do instead.
  [[nodiscard]] bool arm(TimePoint now);
  void on_completions() { is_armed_ = false; }  ///< one may have ended the sleep
  [[nodiscard]] TimePoint next_deadline() const;

 private:
  [[nodiscard]] bool watch_queue_pair(TimePoint now);
  void repair_queue_pair(TimePoint now);
  [[nodiscard]] Result<void> recreate_queue_pair(TimePoint now);

  const PortName name_;
  const Dependencies dependencies_;
  link::PortStatus status_;
  bool is_armed_ = false;
  SendWatchdog watchdog_;
  std::uint64_t tx_timeouts_ = 0;
  bool needs_repair_ = false;  ///< by the watchdog, or since the last repair has failed
  Retry repair_{Backoff{}};
  TimePoint no_repair_before_{};
};

}  // namespace ipoib::daemon
