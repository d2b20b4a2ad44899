#include "daemon/port/roce_sa.hpp"

namespace ipoib::daemon {

namespace {

/// The default for IP multicast, which routers do not forward (RFC 1112, 6.1).
constexpr std::uint8_t kGroupHopLimit = 1;

wire::McMemberRecord group_record(const link::GroupCreation& group) {
  wire::McMemberRecord record;
  record.qkey = group.qkey;
  record.mtu = group.mtu;
  record.sl = group.sl;
  record.flow_label = group.flow_label;
  record.hop_limit = kGroupHopLimit;
  record.traffic_class = group.traffic_class;
  return record;
}

}  // namespace

RoceSa::RoceSa(const link::GroupCreation& group, Logger& log)
    : neighbours_(linux::IpNeighbours::open().value()),
      sa_(group_record(group), groups_, *neighbours_, log) {}

void RoceSa::on_port(const verbs::PortSnapshot& port, TimePoint /*now*/) {
  if (!port.gid.is_zero()) {
    groups_.use(port.network_device);
    neighbours_->use(port.network_device);
  }
  sa_.set_port({port.gid, wire::mtu_code(port.active_mtu)});
}

void RoceSa::on_readable(TimePoint now) {
  neighbours_->take_events();
  sa_.on_neighbours(now);
}

void RoceSa::request(const wire::SaRequest& request, TimePoint now) { sa_.request(request, now); }

}  // namespace ipoib::daemon
