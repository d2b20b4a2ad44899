#include "daemon/port_watcher.hpp"

#include "daemon/interface_plan.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

link::PortStatus port_status(const verbs::PortSnapshot& port, PKey partition) {
  link::PortStatus status;
  status.active = port.active;
  status.sm_known = subnet_administrator(port).has_value();
  status.lid = port.lid;
  status.gid = port.gid;
  if (const auto entry = verbs::find_partition(port.pkeys, partition)) {
    status.pkey_index = entry->index;
  }
  return status;
}

std::optional<MadDestination> subnet_administrator(const verbs::PortSnapshot& port) {
  const auto entry = verbs::find_partition(port.pkeys, kDefaultPKey);
  if (!port.active || !is_unicast(port.sm_lid) || !entry) return std::nullopt;
  return MadDestination{port.sm_lid, port.sm_sl, entry->index};
}

bool PortView::take(const Result<verbs::PortSnapshot>& look, std::string_view name) {
  if (!look) {
    if (retry_.failed()) log_.warn("{}; looks again until it can", look.error().message);
    return false;
  }
  if (retry_.succeeded()) log_.info("{}: can be looked at again", name);
  if (*look == snapshot_) return false;
  snapshot_ = *look;
  log_.info("{}: {}, LID {:#x}, SM LID {:#x}, P_Keys {}", name,
            snapshot_.active ? "active" : "not active", snapshot_.lid.value(),
            snapshot_.sm_lid.value(), list_of(snapshot_.pkeys));
  return true;
}

PortWatcher::PortWatcher(const verbs::Device& device, Logger& log)
    : device_(device),
      log_(log),
      events_(verbs::AsyncEventReader::open(device).value()),
      view_(log) {}

PortWatcher::Findings PortWatcher::update() {
  Findings findings;
  for (;;) {
    const auto event = events_.next();
    if (!event) break;
    log_.info("{}: {}", device_.name(), name(*event));
    findings.reregister |= *event == verbs::AsyncEvent::client_reregister;
    findings.device_failed |= *event == verbs::AsyncEvent::device_fatal;
  }
  if (findings.device_failed) return findings;
  findings.changed =
      view_.take(device_.query(), device_.name() + " port " + std::to_string(device_.port()));
  return findings;
}

}  // namespace ipoib::daemon
