#include "daemon/port_watcher.hpp"

#include <spdlog/fmt/fmt.h>

#include "daemon/interface_plan.hpp"
#include "ipoib/log.hpp"
#include "ipoib/pkey_table.hpp"

namespace ipoib::daemon {

namespace {

std::string address_of(const verbs::PortSnapshot& port) {
  if (port.link_layer == verbs::LinkLayer::infiniband) {
    return fmt::format("LID {:#x}, LMC {}, SM LID {:#x}", port.lid.value(), port.lmc,
                       port.sm_lid.value());
  }
  if (port.gid.is_zero()) return "no RoCE v2 GID that is an IPv6 address";
  return fmt::format("GID {} at index {}, MTU {}", port.gid.to_string(), port.gid_index,
                     port.active_mtu);
}

}  // namespace

link::PortStatus port_status(const verbs::PortSnapshot& port, PKey partition) {
  link::PortStatus status;
  const bool is_roce = port.link_layer == verbs::LinkLayer::roce;
  status.active = port.active && (is_roce ? !port.gid.is_zero() : is_unicast(port.lid));
  status.sm_known = is_roce || subnet_administrator(port);
  status.lid = port.lid;
  status.lmc = port.lmc;
  status.gid = port.gid;
  status.gid_index = port.gid_index;
  if (const auto entry = find_partition(port.pkeys, partition)) {
    status.pkey_index = entry->index;
  }
  return status;
}

std::optional<MadDestination> subnet_administrator(const verbs::PortSnapshot& port) {
  const auto entry = find_partition(port.pkeys, kDefaultPKey);
  if (!port.active || !is_unicast(port.sm_lid) || !entry) return std::nullopt;
  return MadDestination{port.sm_lid, port.sm_sl, entry->index};
}

bool PortView::take(const Result<verbs::PortSnapshot>& look, std::string_view name) {
  if (!look) {
    if (retry_.failed()) log_.warn("{}; trying again", look.error().message);
    return false;
  }
  if (retry_.succeeded()) log_.info("{}: can be queried again", name);
  if (*look == snapshot_) return false;
  snapshot_ = *look;
  log_.info("{}: {}, {}, P_Keys {}", name, snapshot_.active ? "active" : "not active",
            address_of(snapshot_), list_of(snapshot_.pkeys));
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
  const auto network_device = snapshot().network_device;
  findings.changed =
      view_.take(device_.query(), device_.name() + " port " + std::to_string(device_.port()));
  // Groups were joined on another network device.
  findings.reregister |= network_device != 0 && snapshot().network_device != network_device;
  return findings;
}

}  // namespace ipoib::daemon
