#include "daemon/port_control.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "daemon/acm_look_ups.hpp"
#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/service_manager.hpp"

namespace ipoib::daemon {

namespace {
// How often a lost device is looked for.
constexpr std::chrono::seconds kReopenPause{1};
// Time until the log says what the end waits for; an SA that works answers before.
constexpr std::chrono::milliseconds kEndingPause{500};

/// If two SAs are asked, the one that does not answer may be at fault, and not the port.
bool have_one_sa(const verbs::PortSnapshot& a, const verbs::PortSnapshot& b) {
  return a.gid.prefix() == b.gid.prefix() && a.sm_lid == b.sm_lid;
}
}  // namespace

PortControl::PortControl(const Dependencies& dependencies, std::optional<Predecessor> predecessor)
    : dependencies_(dependencies),
      watchdog_timer_(dependencies.context, [this] { on_watchdog(); }),
      test_timer_(dependencies.context, [this] { test_paths(); }),
      reopen_timer_(dependencies.context, [this] { reopen_lost(); }),
      ending_timer_(dependencies.context,
                    [this] {
                      dependencies_.log.info(
                          "waiting some seconds for the subnet manager's SA to answer that the "
                          "groups are left; a second signal ends at once");
                    }),
      signal_watch_(dependencies.context, dependencies.signals.descriptor(),
                    [this] { on_signal(); }),
      interfaces_({.context = dependencies.context,
                   .factory = dependencies.factory,
                   .options = dependencies.options,
                   .kept = dependencies.kept,
                   .changes = dependencies.changes,
                   .owner = *this,
                   .sa = *this,
                   .handed = dependencies.handed,
                   .has_backup = dependencies.backup.has_value(),
                   .log = dependencies.log}),
      giver_({.context = dependencies.context,
              .interfaces = interfaces_,
              .changes = dependencies.changes,
              .own = dependencies.own,
              .on_end = [this] { end_reports(); },
              .log = dependencies.log}) {
  ports_[PortRole::primary] = serve(PortRole::primary, dependencies.primary);
  if (const auto& backup = dependencies.backup) {
    ports_[PortRole::backup] = serve(PortRole::backup, *backup);
  }
  if (dependencies.acm != nullptr) {
    acm_.emplace(
        dependencies.context, *dependencies.acm,
        [look_ups = AcmLookUps(interfaces_, *dependencies.home)](const wire::acm::Wanted& wanted,
                                                                 acm::Server::Done done) {
          look_ups.find(wanted, std::move(done));
        },
        dependencies.log);
  }
  if (!predecessor) return;
  taker_.emplace(
      handover::Taker::Dependencies{.context = dependencies.context,
                                    .interfaces = interfaces_,
                                    .on_serving = dependencies.on_serving,
                                    .on_failure =
                                        [this](const std::string& why) {
                                          interfaces_.stop({StopReason::Kind::failed, why});
                                        },
                                    .log = dependencies.log},
      std::move(predecessor->connection), predecessor->pid);
}

std::unique_ptr<ServedPort> PortControl::serve(PortRole role, const Port& port) {
  return std::make_unique<ServedPort>(ServedPort::Dependencies{
      .context = dependencies_.context,
      .role = role,
      .port = port.source,
      .sa = port.sa,
      .interfaces = interfaces_,
      .trace = dependencies_.trace,
      .on_lost = [this, role](const std::string& reason) { on_lost(role, reason); },
      .on_changed = [this] { test_paths(); },
      .on_tested =
          [this, role](std::uint64_t round, bool answered) {
            if (path_monitor_.on_result(role, round, answered)) show_silence();
          }});
}

void PortControl::start(const verbs::PortSnapshot& port) {
  std::set<PKey> handed;
  for (const auto& [pkey, interface] : dependencies_.handed) handed.insert(pkey);
  interfaces_.start(port);
  dependencies_.handed.clear();  // the others end with the other daemon
  if (taker_) {
    taker_->start(handed);
    return;
  }
  try {
    dependencies_.on_serving();
  } catch (...) {
    interfaces_.undo_start();
    throw;
  }
}

PortControl::Ended PortControl::run() {
  for (const auto& port : ports_.values) {
    if (port) port->update();
  }
  on_watchdog();
  dependencies_.context.run();
  if (stopping_) ended_.reason.clear();
  return ended_;
}

void PortControl::on_signal() {
  const auto number = dependencies_.signals.take();
  if (!number) return;
  if (*number == SIGHUP) return reload();
  if (std::exchange(stopping_, true)) {  // the second signal
    interfaces_.stop_now();
    return dependencies_.context.stop();
  }
  if (giver_.end("the running ipoibd is ending")) return;
  dependencies_.log.info("{}: leaving the groups and {} the interfaces", strsignal(*number),
                         dependencies_.options.keep ? "keeping" : "removing");
  notify_service_manager("STOPPING=1");
  end_reports();
  ending_timer_.set(monotonic_now() + kEndingPause);
  interfaces_.stop({});
}

void PortControl::end_reports() {
  for (const auto& port : ports_.values) {
    if (port) port->end();
  }
}

void PortControl::reload() {
  if (stopping_) return;
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(monotonic_now().time_since_epoch());
  notify_service_manager("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now.count()));
  interfaces_.reconfigure(dependencies_.reload());
  notify_service_manager("READY=1");
}

/// While the other port is left, the interfaces go on with that.
void PortControl::on_lost(PortRole role, const std::string& reason) {
  const auto& other = ports_[other_than(role)];
  if (other && !other->is_lost()) {
    dependencies_.log.error("{} port: {}; waiting for it to come back", name(role), reason);
    test_paths();
    reopen_timer_.set(monotonic_now() + kReopenPause);
    return interfaces_.on_event(PortUpdate{.role = role});
  }
  if (giver_.end(reason)) return;
  // Until then, the other daemon waits for the device.
  ended_.device_lost = !taker_ || taker_->is_over();
  interfaces_.stop({StopReason::Kind::failed, reason});
}

/// There is no event for a new device.
void PortControl::reopen_lost() {
  if (stopping_) return;
  for (const PortRole role : kPortRoles) {
    if (!ports_[role] || !ports_[role]->is_lost()) continue;
    if (ports_[other_than(role)]->is_lost()) return;  // everything ends
    const auto found = dependencies_.reopen(role);
    if (!found) return reopen_timer_.set(monotonic_now() + kReopenPause);
    dependencies_.log.info("{} port: its device is back", name(role));
    ports_[role] = serve(role, *found);
    interfaces_.replace_port(role);
    ports_[role]->update();
  }
}

// --- Whether the ports pass datagrams ------------------------------------------------------------

/// With one port, nothing would follow from the result.
void PortControl::test_paths() {
  const auto& [primary, backup] = ports_.values;
  if (!primary || !backup || stopping_) return test_timer_.set(kNever);
  if (!primary->can_test() || !backup->can_test() ||
      !have_one_sa(primary->snapshot(), backup->snapshot())) {
    if (path_monitor_.stop()) show_silence();
    return test_timer_.set(kNever);  // on_changed() follows
  }
  const auto& port = primary->snapshot();
  const Lid highest = std::max({port.lid, port.sm_lid, backup->snapshot().lid});
  if (path_monitor_.begin(highest, monotonic_now())) {
    for (const auto& each : ports_.values) each->test(path_monitor_.round());
  }
  test_timer_.set(path_monitor_.next_deadline());
}

void PortControl::show_silence() {
  for (const PortRole role : kPortRoles) {
    const bool is_silent = path_monitor_.is_silent(role);
    if (std::exchange(is_silent_[role], is_silent) != is_silent) log_silence(role);
    if (ports_[role]) ports_[role]->set_silent(is_silent);
  }
}

void PortControl::log_silence(PortRole role) {
  if (is_silent_[role]) {
    dependencies_.log.warn(
        "{} port: the subnet's SA answers the other port, but not this one: check its cable and "
        "counters (iblinkinfo, perfquery)",
        name(role));
  } else {
    dependencies_.log.info("{} port: is no longer silent", name(role));
  }
}

/// The service manager learns that this thread and those of the interfaces work. One that does not
/// respond makes it end the process, and start it again.
void PortControl::on_watchdog() {
  const auto period = watchdog_period();
  if (!period) return;
  if (interfaces_.threads_respond()) {
    notify_service_manager("WATCHDOG=1");
    interfaces_.check_threads();
  }
  watchdog_timer_.set(monotonic_now() + *period / 4);
}

void PortControl::on_mode(InterfaceNumber interface, PumpMode mode) {
  giver_.on_mode(interface, mode);
  if (taker_) taker_->on_mode(interface, mode);
}

void PortControl::on_handover(FileDescriptor connection) {
  giver_.on_connection(std::move(connection));
}

void PortControl::on_status() { notify_service_manager("STATUS=" + interfaces_.status()); }

void PortControl::send(const wire::SaRequest& request) {
  ports_[port_of(request.id)]->request(request);
}

sa::Counters PortControl::counters() const {
  auto sum = ports_[PortRole::primary]->counters();
  if (const auto& backup = ports_[PortRole::backup]) sum += backup->counters();
  return sum;
}

void PortControl::on_finished(const std::string& reason) {
  ended_.reason = reason;
  dependencies_.context.stop();
}

}  // namespace ipoib::daemon
