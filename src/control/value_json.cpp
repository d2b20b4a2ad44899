#include "control/value_json.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

namespace ipoib::control {

namespace json = boost::json;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

namespace {

json::object to_json(const Path& path) {
  return {{"dlid", path.dlid.value()},
          {"sl", path.sl.value()},
          {"mtu", path.mtu},
          {"rate_mbps", path.rate_mbps}};
}

Path read_path(JsonReader& reader) {
  return {Lid(reader.number<std::uint16_t>("dlid")),
          ServiceLevel(reader.number<std::uint8_t>("sl")), reader.number<std::uint32_t>("mtu"),
          reader.number<std::uint32_t>("rate_mbps")};
}

}  // namespace

json::object to_json(const Entry& entry) {
  json::object out{{"address", to_string(entry.address)}, {"state", entry.state}};
  if (entry.hardware) out["lladdr"] = entry.hardware->to_string();
  if (entry.pinned) out["pinned_gid"] = entry.pinned->to_string();
  if (entry.mac) out["mac"] = entry.mac->to_string();
  if (entry.path) out["path"] = to_json(*entry.path);
  out["idle_ms"] = duration_cast<milliseconds>(entry.idle).count();
  out["uses"] = entry.uses;
  out["references"] = entry.references;
  out["waiting"] = entry.waiting;
  return out;
}

namespace {

Duration read_idle(JsonReader& reader) {
  constexpr std::int64_t kLongest = duration_cast<milliseconds>(Duration::max()).count();
  const std::int64_t idle = reader.integer("idle_ms");
  if (idle >= 0 && idle <= kLongest) return milliseconds(idle);
  reader.fail("idle_ms", "milliseconds, not less than 0");
  return {};
}

}  // namespace

Entry read_entry(JsonReader& reader) {
  Entry entry;
  entry.address = reader.address("address");
  entry.state = reader.text("state");
  if (reader.has("lladdr")) entry.hardware = reader.hardware("lladdr");
  if (reader.has("pinned_gid")) entry.pinned = reader.gid("pinned_gid");
  if (reader.has("mac")) entry.mac = reader.mac("mac");
  if (reader.has("path")) entry.path = read_part(reader, "path", read_path);
  entry.idle = read_idle(reader);
  if (reader.has("uses")) entry.uses = reader.number<std::uint64_t>("uses");
  entry.references = reader.number<std::uint32_t>("references");
  entry.waiting = reader.number<std::uint32_t>("waiting");
  return entry;
}

json::object to_json(const Resolution& found) {
  json::object out{{"address", to_string(found.address)},
                   {"lladdr", found.hardware.to_string()},
                   {"path", to_json(found.path)},
                   {"source_gid", found.source_gid.to_string()},
                   {"source_lid", found.source_lid.value()},
                   {"pkey", found.pkey.value()},
                   {"rate", found.rate},
                   {"hop_limit", found.hop_limit}};
  if (found.lifetime) out["lifetime"] = *found.lifetime;
  return out;
}

Resolution read_resolution(JsonReader& reader) {
  Resolution found;
  found.address = reader.address("address");
  found.hardware = reader.hardware("lladdr");
  found.path = read_part(reader, "path", read_path);
  found.source_gid = reader.gid("source_gid");
  found.source_lid = Lid(reader.number<std::uint16_t>("source_lid"));
  found.pkey = PKey(reader.number<std::uint16_t>("pkey"));
  found.rate = reader.number<std::uint8_t>("rate");
  found.hop_limit = reader.number<std::uint8_t>("hop_limit");
  if (reader.has("lifetime")) found.lifetime = reader.number<std::uint8_t>("lifetime");
  return found;
}

json::object to_json(const Counter& counter) {
  json::object out{{"name", counter.name}, {"value", counter.value}, {"drop", counter.is_drop}};
  if (counter.is_gauge) out["gauge"] = true;
  return out;
}

Counter read_counter(JsonReader& reader) {
  return {reader.text("name"), reader.number<std::uint64_t>("value"), reader.boolean("drop"),
          reader.has("gauge") && reader.boolean("gauge")};
}

json::object to_json(const Histogram& histogram) {
  return {{"name", histogram.name},
          {"bounds_ns", json::array(histogram.bounds.begin(), histogram.bounds.end())},
          {"counts", json::array(histogram.counts.begin(), histogram.counts.end())},
          {"sum_ns", histogram.sum}};
}

Histogram read_histogram(JsonReader& reader) {
  Histogram out{reader.text("name"), reader.numbers("bounds_ns"), reader.numbers("counts"),
                reader.number<std::uint64_t>("sum_ns")};
  if (out.counts.size() != out.bounds.size() + 1)
    reader.fail("counts", "one element more than bounds_ns has");
  if (!std::is_sorted(out.bounds.begin(), out.bounds.end(), std::less_equal<>())) {
    reader.fail("bounds_ns", "numbers in ascending order");
  }
  return out;
}

json::object to_json(const Station& station) {
  return {{"address", to_string(station.address)},
          {"mac", station.mac.to_string()},
          {"state", station.state},
          {"served", station.served},
          {"idle_ms", duration_cast<milliseconds>(station.idle).count()}};
}

Station read_station(JsonReader& reader) {
  Station station;
  station.address = reader.address("address");
  station.mac = reader.mac("mac");
  station.state = reader.text("state");
  station.served = reader.boolean("served");
  station.idle = read_idle(reader);
  return station;
}

json::object to_json(const Group& group) {
  json::object out{{"mgid", group.mgid.to_string()},
                   {"mlid", group.mlid.value()},
                   {"membership", group.membership},
                   {"waiting", group.waiting}};
  if (group.address) out["address"] = to_string(*group.address);
  return out;
}

Group read_group(JsonReader& reader) {
  Group group;
  group.mgid = reader.gid("mgid");
  group.mlid = Lid(reader.number<std::uint16_t>("mlid"));
  group.membership = reader.text("membership");
  if (reader.has("address")) group.address = reader.address("address");
  if (reader.has("waiting")) group.waiting = reader.number<std::uint32_t>("waiting");
  return group;
}

json::object to_json(const PortInfo& port) {
  return {
      {"device", port.device},       {"port", port.port},       {"role", port.role},
      {"active", port.active},       {"state", port.state},     {"waiting_for", port.waiting_for},
      {"gid", port.gid.to_string()}, {"lid", port.lid.value()}, {"sm_lid", port.sm_lid.value()}};
}

PortInfo read_port(JsonReader& reader) {
  PortInfo port;
  port.device = reader.text("device");
  port.port = reader.number<std::uint8_t>("port");
  port.role = reader.text("role");
  port.active = reader.boolean("active");
  port.state = reader.text("state");
  port.waiting_for = reader.text("waiting_for");
  port.gid = reader.gid("gid");
  port.lid = Lid(reader.number<std::uint16_t>("lid"));
  port.sm_lid = Lid(reader.number<std::uint16_t>("sm_lid"));
  return port;
}

json::object to_json(const InterfaceInfo& info) {
  json::object out{{"interface", info.interface},
                   {"device", info.device},
                   {"port", info.port},
                   {"pkey", info.pkey.value()},
                   {"qkey", info.qkey.value()},
                   {"qpn", info.qpn.value()},
                   {"gid", info.gid.to_string()},
                   {"lid", info.lid.value()},
                   {"sm_lid", info.sm_lid.value()},
                   {"mtu", info.mtu},
                   {"host_mtu", info.host_mtu},
                   {"port_mtu", info.port_mtu},
                   {"port_rate_mbps", info.port_rate_mbps},
                   {"group_rate_mbps", info.group_rate_mbps},
                   {"membership", info.membership},
                   {"admin_up", info.admin_up},
                   {"state", info.state},
                   {"waiting_for", info.waiting_for},
                   {"version", info.version},
                   {"pid", info.pid},
                   {"groups", to_json_array(info.groups)}};
  if (!info.ports.empty()) out["ports"] = to_json_array(info.ports);
  return out;
}

InterfaceInfo read_info_without_groups(JsonReader& reader) {
  InterfaceInfo info;
  info.interface = reader.text("interface");
  info.device = reader.text("device");
  info.port = reader.number<std::uint8_t>("port");
  info.pkey = PKey(reader.number<std::uint16_t>("pkey"));
  info.qkey = QKey(reader.number<std::uint32_t>("qkey"));
  info.qpn = reader.qpn("qpn");
  info.gid = reader.gid("gid");
  info.lid = Lid(reader.number<std::uint16_t>("lid"));
  if (reader.has("sm_lid")) info.sm_lid = Lid(reader.number<std::uint16_t>("sm_lid"));
  info.mtu = reader.number<std::uint32_t>("mtu");
  if (reader.has("host_mtu")) info.host_mtu = reader.number<std::uint32_t>("host_mtu");
  if (reader.has("port_mtu")) info.port_mtu = reader.number<std::uint32_t>("port_mtu");
  if (reader.has("port_rate_mbps")) {
    info.port_rate_mbps = reader.number<std::uint32_t>("port_rate_mbps");
  }
  if (reader.has("group_rate_mbps")) {
    info.group_rate_mbps = reader.number<std::uint32_t>("group_rate_mbps");
  }
  if (reader.has("membership")) info.membership = reader.text("membership");
  if (reader.has("admin_up")) info.admin_up = reader.boolean("admin_up");
  info.state = reader.text("state");
  info.waiting_for = reader.text("waiting_for");
  info.version = reader.text("version");
  info.pid = reader.number<std::uint32_t>("pid");
  if (reader.has("ports")) info.ports = read_all(reader, "ports", read_port);
  return info;
}

InterfaceInfo read_info(JsonReader& reader) {
  InterfaceInfo info = read_info_without_groups(reader);
  info.groups = read_all(reader, "groups", read_group);
  return info;
}

json::object to_json(const Member& member) {
  return {{"gid", member.port.to_string()}, {"join_state", member.join_state}};
}

Member read_member(JsonReader& reader) {
  return {reader.gid("gid"), reader.number<std::uint8_t>("join_state")};
}

json::object to_json(const ModuleLevel& level) {
  return {{"module", level.module}, {"level", level.level}};
}

ModuleLevel read_level(JsonReader& reader) { return {reader.text("module"), reader.text("level")}; }

json::object to_json(const TraceLine& line) {
  return {{"sequence", line.sequence},
          {"keyword", line.keyword},
          {"when_ns", line.when.time_since_epoch().count()},
          {"first", line.first},
          {"second", line.second}};
}

TraceLine read_trace_line(JsonReader& reader) {
  TraceLine line;
  line.sequence = reader.number<std::uint64_t>("sequence");
  line.keyword = reader.text("keyword");
  line.when = TimePoint(Duration(reader.integer("when_ns")));
  line.first = reader.number<std::uint64_t>("first");
  line.second = reader.number<std::uint64_t>("second");
  return line;
}

}  // namespace ipoib::control
