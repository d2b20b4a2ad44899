// libibarp: converts values to the structures of ibarp.h.
#include "control/ibarp_values.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>

namespace ipoib::control {

namespace {

template <std::size_t Size>
void set(char (&to)[Size], const std::string& from) {
  copy_text(from, to, Size);
}

}  // namespace

Result<Filter> from_c(const ibarp_filter* filter) {
  Filter out;
  if (filter == nullptr) return out;
  if (filter->size == 0) return Error{EINVAL, "filter->size is not set"};
  const auto* const bytes = reinterpret_cast<const unsigned char*>(filter);
  const std::size_t size = std::min(filter->size, sizeof(ibarp_filter));
  if (std::any_of(bytes + size, bytes + filter->size, [](auto byte) { return byte != 0; })) {
    return Error{EINVAL, "the filter has conditions that this version of libibarp does not know"};
  }
  ibarp_filter from{};
  std::memcpy(&from, filter, size);
  if (from.family != 0) {
    if (from.family != AF_INET && from.family != AF_INET6) {
      return Error{EINVAL, "address family must be AF_INET, AF_INET6 or 0"};
    }
    out.family = from.family == AF_INET ? IpFamily::v4 : IpFamily::v6;
  }
  if (from.prefix.family != 0) {
    const auto address = from_c(from.prefix);
    const unsigned bits = from.prefix.family == AF_INET ? 32 : 128;
    if (!address || from.prefix_length > bits) return Error{EINVAL, "the prefix is not valid"};
    out.prefix = IpPrefix{*address, static_cast<std::uint8_t>(from.prefix_length)};
  }
  from.states[sizeof(from.states) - 1] = '\0';
  if (from.states[0] != '\0') {
    auto states = parse_states(from.states);
    if (states.has_error()) return states.error();
    out.states = std::move(*states);
  }
  return out;
}

void copy_text(const std::string& from, char* to, std::size_t size) {
  const std::size_t length = std::min(from.size(), size - 1);
  std::copy_n(from.data(), length, to);
  to[length] = '\0';
}

ibarp_entry to_c(const Entry& entry) {
  ibarp_entry out{};
  out.size = sizeof(out);
  out.address = to_c(entry.address);
  set(out.state, entry.state);
  if (entry.hardware) {
    out.flags |= IBARP_HAS_HARDWARE;
    out.hardware = to_c(*entry.hardware);
  }
  if (entry.pinned) {
    out.flags |= IBARP_IS_PINNED;
    std::copy_n(entry.pinned->bytes().begin(), Gid::kSize, out.hardware.gid);
  }
  if (entry.mac) {
    out.flags |= IBARP_HAS_MAC;
    std::ranges::copy(entry.mac->bytes(), out.mac);
  }
  if (entry.path) {
    out.flags |= IBARP_HAS_PATH;
    out.dlid = entry.path->dlid.value();
    out.sl = entry.path->sl.value();
    out.path_mtu = entry.path->mtu;
    out.rate_mbps = entry.path->rate_mbps;
  }
  out.idle_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(entry.idle).count());
  out.references = entry.references;
  out.uses = entry.uses;
  out.waiting = entry.waiting;
  return out;
}

ibarp_path to_c(const Resolution& found) {
  ibarp_path out{};
  out.size = sizeof(out);
  out.hardware = to_c(found.hardware);
  out.dlid = found.path.dlid.value();
  out.sl = found.path.sl.value();
  out.mtu = found.path.mtu;
  out.rate_mbps = found.path.rate_mbps;
  out.pkey = found.pkey.value();
  std::copy_n(found.source_gid.bytes().begin(), Gid::kSize, out.source_gid);
  out.source_lid = found.source_lid.value();
  return out;
}

ibarp_info to_c(const InterfaceInfo& info) {
  ibarp_info out{};
  out.size = sizeof(out);
  set(out.interface, info.interface);
  set(out.device, info.device);
  out.port = info.port;
  out.pkey = info.pkey.value();
  out.lid = info.lid.value();
  out.sm_lid = info.sm_lid.value();
  out.qkey = info.qkey.value();
  out.hardware = to_c(HwAddress{0, info.qpn, info.gid});
  out.mtu = info.mtu;
  set(out.state, info.state);
  out.waiting_for = info.waiting_for.c_str();
  out.admin_up = info.admin_up ? 1 : 0;
  set(out.version, info.version);
  out.pid = info.pid;
  set(out.membership, info.membership);
  out.host_mtu = info.host_mtu;
  out.port_mtu = info.port_mtu;
  out.port_rate_mbps = info.port_rate_mbps;
  out.group_rate_mbps = info.group_rate_mbps;
  return out;
}

ibarp_port to_c(const PortInfo& port) {
  ibarp_port out{};
  out.size = sizeof(out);
  set(out.device, port.device);
  out.port = port.port;
  set(out.role, port.role);
  out.is_active = port.active ? 1 : 0;
  set(out.state, port.state);
  out.waiting_for = port.waiting_for.c_str();
  std::copy_n(port.gid.bytes().begin(), Gid::kSize, out.gid);
  out.lid = port.lid.value();
  out.sm_lid = port.sm_lid.value();
  return out;
}

ibarp_station to_c(const Station& station) {
  ibarp_station out{};
  out.size = sizeof(out);
  out.address = to_c(station.address);
  std::copy_n(station.mac.bytes().begin(), MacAddress::kSize, out.mac);
  set(out.state, station.state);
  out.is_served = station.served ? 1 : 0;
  out.idle_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(station.idle).count());
  return out;
}

ibarp_group to_c(const Group& group) {
  ibarp_group out{};
  out.size = sizeof(out);
  std::copy_n(group.mgid.bytes().begin(), Gid::kSize, out.mgid);
  out.mlid = group.mlid.value();
  set(out.membership, group.membership);
  if (group.address) out.address = to_c(*group.address);
  out.waiting = group.waiting;
  return out;
}

ibarp_member to_c(const Member& member) {
  ibarp_member out{};
  out.size = sizeof(out);
  std::copy_n(member.port.bytes().begin(), Gid::kSize, out.port_gid);
  out.join_state = member.join_state;
  return out;
}

ibarp_counter to_c(const Counter& counter) {
  ibarp_counter out{};
  out.size = sizeof(out);
  set(out.name, counter.name);
  out.value = counter.value;
  out.is_drop = counter.is_drop ? 1 : 0;
  out.is_gauge = counter.is_gauge ? 1 : 0;
  return out;
}

ibarp_histogram to_c(const Histogram& histogram) {
  ibarp_histogram out{};
  out.size = sizeof(out);
  set(out.name, histogram.name);
  out.buckets = static_cast<std::uint32_t>(histogram.bounds.size());
  out.bounds_ns = histogram.bounds.data();
  out.counts = histogram.counts.data();
  out.sum_ns = histogram.sum;
  return out;
}

ibarp_log_level to_c(const ModuleLevel& level) {
  ibarp_log_level out{};
  out.size = sizeof(out);
  set(out.module, level.module);
  set(out.level, level.level);
  return out;
}

ibarp_trace_record to_c(const std::string& thread, const TraceLine& line) {
  ibarp_trace_record out{};
  out.size = sizeof(out);
  set(out.thread, thread);
  set(out.keyword, line.keyword);
  out.when_ns = line.when.time_since_epoch().count();
  out.first = line.first;
  out.second = line.second;
  return out;
}

}  // namespace ipoib::control
