#include "daemon/pump/link_port.hpp"

#include <algorithm>

#include "ipoib/log.hpp"

namespace ipoib::daemon {

namespace {
// Pause between two repairs of a queue pair that fails again at once.
constexpr Duration kRepairPause = std::chrono::seconds(1);
}  // namespace

PortHealth LinkPort::health() const {
  if (link().state() != link::LinkState::up) return PortHealth::down;
  if (status_.silent) return PortHealth::silent;
  return status_.sm_known ? PortHealth::ready : PortHealth::no_sm;
}

/// A port that is down keeps the addresses that tell in which subnet it was.
void LinkPort::on_port(const link::PortStatus& status, TimePoint now) {
  const auto before = std::exchange(status_, status);
  if (!status.active) {
    status_.gid = before.gid;
    status_.sm_lid = before.sm_lid;
  }
  link().on_port(status, now);
}

bool LinkPort::turn(TimePoint now) {
  bool is_busy = pump().turn(now);
  is_busy |= watch_queue_pair(now);
  return is_busy;
}

bool LinkPort::arm(TimePoint now) {
  if (std::exchange(is_armed_, true)) return false;
  queue_pair().acknowledge_events();
  queue_pair().arm();
  // Completions from before arming raise no event.
  return pump().from_fabric(now);
}

TimePoint LinkPort::next_deadline() const {
  const auto due = std::min(dependencies_.pump.next_deadline(), watchdog_.deadline());
  const bool is_broken = needs_repair_ || dependencies_.queue_pair.is_broken();
  return is_broken ? std::min(due, no_repair_before_) : due;
}

/// Returns whether the queue pair was repaired, so that it may take waiting sends.
bool LinkPort::watch_queue_pair(TimePoint now) {
  if (watchdog_.is_stuck(queue_pair().send_progress(), now)) {
    ++tx_timeouts_;
    needs_repair_ = true;
    dependencies_.log.warn("{}: no send has completed for {} seconds; restarting the queue pair",
                           name_.text(), SendWatchdog::kTimeout.count());
  }
  if (!needs_repair_ && !queue_pair().is_broken()) return false;
  if (now < no_repair_before_) return false;
  repair_queue_pair(now);
  return true;
}

void LinkPort::repair_queue_pair(TimePoint now) {
  is_armed_ = false;
  const auto& counters = queue_pair().counters();
  dependencies_.trace.record("restart", now, counters.send_errors, counters.receive_errors);
  needs_repair_ = false;
  no_repair_before_ = now + kRepairPause;
  const auto restarted = queue_pair().restart();
  if (restarted) {
    (void)repair_.succeeded();
    dependencies_.log.warn(
        "{}: queue pair {:#x} was in error ({} sends, {} receives so far) and is up again",
        name_.text(), queue_pair().qpn().value(), counters.send_errors, counters.receive_errors);
    return;
  }
  const auto recreated = recreate_queue_pair(now);
  if (recreated) {
    (void)repair_.succeeded();
    dependencies_.log.warn("{}: {}; has created another queue pair", name_.text(),
                           restarted.error().message);
    return;
  }
  needs_repair_ = true;
  if (repair_.failed()) {
    dependencies_.log.error("{}: {}; {}; trying again", name_.text(), restarted.error().message,
                            recreated.error().message);
  }
  no_repair_before_ = now + repair_.pause();
  link().on_setup_failed(now);
  pump().drain(now);
}

/// Even if it fails, there may be another queue pair.
Result<void> LinkPort::recreate_queue_pair(TimePoint now) {
  const Qpn before = queue_pair().qpn();
  auto recreated = queue_pair().recreate();
  if (recreated || queue_pair().qpn() != before) {
    link().on_queue_pair(queue_pair().qpn(), now);
    pump().drain(now);
  }
  return recreated;
}

}  // namespace ipoib::daemon
