#include "daemon/port/port_watcher.hpp"

#include <spdlog/fmt/fmt.h>

#include "daemon/options/interface_plan.hpp"
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

std::string activity_of(const verbs::PortSnapshot& port) {
  if (port.active) return "active";
  return fmt::format("not active, {} ({})", text_of(port.inactive), remedy_of(port.inactive));
}

}  // namespace

link::PortStatus port_status(const verbs::PortSnapshot& port, PKey partition) {
  link::PortStatus status;
  const bool is_roce = port.link_layer == verbs::LinkLayer::roce;
  status.active = port.active && (is_roce ? !port.gid.is_zero() : is_unicast(port.lid));
  status.inactive = port.inactive;
  if (port.active) status.inactive = is_roce ? Inactive::no_gid : Inactive::init;  // no addresses
  status.sm_known = is_roce || sa_destination(port);
  status.lid = port.lid;
  status.lmc = port.lmc;
  status.sm_lid = port.sm_lid;
  status.gid = port.gid;
  status.gid_index = port.gid_index;
  status.rate_mbps = port.rate_mbps;
  status.mtu = port.active_mtu;
  status.silent = port.silent;
  status.grh_required = port.grh_required;
  if (const auto entry = find_partition(port.pkeys, partition)) {
    status.pkey_index = entry->index;
    status.limited = !entry->pkey.is_full();
  }
  return status;
}

std::optional<MadDestination> sa_destination(const verbs::PortSnapshot& port) {
  const auto entry = find_partition(port.pkeys, kDefaultPKey);
  if (!port.active || !is_unicast(port.sm_lid) || !entry) return std::nullopt;
  MadDestination sa{port.sm_lid, port.sm_sl, entry->index};
  if (port.grh_required) {
    sa.global = GlobalRoute{.dgid = Gid(port.gid.prefix(), kSaGuid),
                            .sgid_index = port.gid_index,
                            .hop_limit = kSubnetHopLimit};
  }
  return sa;
}

bool PortView::update(const Result<verbs::PortSnapshot>& query, std::string_view name) {
  if (!query) {
    if (retry_.failed()) log_.warn("{}; trying again", query.error().message);
    return false;
  }
  if (retry_.succeeded()) log_.info("{}: can be queried again", name);
  if (*query == snapshot_) return false;
  snapshot_ = *query;
  log_.info("{}: {}, {}, P_Keys {}", name, activity_of(snapshot_), address_of(snapshot_),
            list_of(snapshot_.pkeys));
  return true;
}

PortWatcher::PortWatcher(const verbs::Device& device, Logger& log)
    : device_(device),
      log_(log),
      events_(verbs::AsyncEventReader::open(device).value()),
      view_(log) {}

void PortWatcher::report_violations() {
  for (const auto& line : violations_.on_counters(device_.counters())) {
    log_.warn("{} port {}: {}", device_.name(), device_.port(), line);
  }
}

PortWatcher::Changes PortWatcher::update() {
  Changes changes;
  bool was_down = false;
  for (int i = 0; i < verbs::AsyncEventReader::kMaxEventsPerTurn; ++i) {
    const auto event = events_.next();
    if (!event) break;
    log_.info("{}: {}", device_.name(), name(event->kind));
    changes.reregister |= event->kind == verbs::AsyncEvent::client_reregister;
    was_down |= event->kind == verbs::AsyncEvent::port_error;
    changes.device_failed |= event->kind == verbs::AsyncEvent::device_fatal;
    if (event->object != nullptr) changes.failed_objects.push_back(event->object);
  }
  if (changes.device_failed) return changes;
  const auto network_device = snapshot().network_device;
  changes.changed =
      view_.update(device_.query(), device_.name() + " port " + std::to_string(device_.port()));
  // The SM may have removed the memberships of a port that was down for a moment.
  changes.reregister |= was_down && snapshot().active;
  // Groups were joined on another network device.
  changes.reregister |= network_device != 0 && snapshot().network_device != network_device;
  return changes;
}

}  // namespace ipoib::daemon
