// Notices a send queue that completes nothing, as the watchdog of the kernel's network devices
// does.
#pragma once

#include <chrono>

#include "ipoib/time.hpp"
#include "verbs/recoverable_ud_port.hpp"

namespace ipoib::daemon {

class SendWatchdog {
 public:
  /// Longer than a port may wait for credits before it drops a packet (IBA 18.2.5.4), except with
  /// an unlimited lifetime; as long as that of Linux network devices.
  static constexpr std::chrono::seconds kTimeout{5};

  /// To be called in each turn. Returns whether sends have been waiting for kTimeout without any
  /// completion, and starts over then.
  [[nodiscard]] bool is_stuck(const verbs::RecoverableUdPort::SendProgress& sends, TimePoint now) {
    if (sends.in_flight < verbs::kSignalPeriod) {
      due_ = kNever;
      return false;
    }
    if (due_ != kNever && sends.completed == completed_) {
      if (now < due_) return false;
      due_ = kNever;
      return true;
    }
    completed_ = sends.completed;
    due_ = now + kTimeout;
    return false;
  }
  /// When is_stuck() has to be called again; kNever if no send waits.
  [[nodiscard]] TimePoint deadline() const { return due_; }

 private:
  std::uint64_t completed_ = 0;
  TimePoint due_ = kNever;
};

}  // namespace ipoib::daemon
