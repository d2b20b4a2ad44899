// Prints reports about an interface: counters, log levels, trace, information.
#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <iterator>

#include "color.hpp"
#include "json.hpp"
#include "run.hpp"
#include "table/table.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace json = boost::json;

namespace {

std::string heading(const Client& client) {
  return ink(Ink::interface, client.interface()) + ":\n";
}

/// Counters of failures, besides the drops. The others count what happens on a healthy link, too.
constexpr std::array<std::string_view, 19> kFaults{"address_handle_refusals",
                                                   "carrier_losses",
                                                   "host_groups_left_out",
                                                   "join_failures",
                                                   "memberships_lost",
                                                   "messages_lost",
                                                   "path_failures",
                                                   "path_lid_mismatches",
                                                   "post_refused",
                                                   "receive_starved",
                                                   "sa_busy",
                                                   "sa_overloaded",
                                                   "sa_refusals",
                                                   "sa_send_errors",
                                                   "sa_timeouts",
                                                   "sa_without_sm",
                                                   "send_queue_full",
                                                   "station_duplicate_addresses",
                                                   "tx_timeouts"};

bool is_fault(const ibarp_counter& counter) {
  return std::ranges::find(kFaults, counter.name) != kFaults.end();
}

/// A table of names and values without headings.
table::Table pairs(table::Align values) { return table::Table({{""}, {"", values}}); }

/// Formats CLOCK_MONOTONIC like the kernel's log.
std::string seconds(std::int64_t nanoseconds) {
  constexpr std::int64_t kNanoPerSecond = 1'000'000'000;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "[%6lld.%09lld]",
                static_cast<long long>(nanoseconds / kNanoPerSecond),
                static_cast<long long>(nanoseconds % kNanoPerSecond));
  return text.data();
}

json::object membership_json(const ibarp_group& group) {
  json::object out{{"mgid", gid_text(group.mgid)},
                   {"membership", static_cast<const char*>(group.membership)}};
  if (group.mlid != 0) out["mlid"] = hexadecimal(group.mlid, 4);
  return out;
}

bool is_zero(const std::uint8_t (&gid)[16]) {
  return std::all_of(std::begin(gid), std::end(gid), [](auto byte) { return byte == 0; });
}

json::object port_as_json(const Port& port) {
  const ibarp_port& values = port.values;
  json::object out{
      {"device", static_cast<const char*>(values.device)}, {"port", values.port},
      {"role", static_cast<const char*>(values.role)},     {"active", values.is_active != 0},
      {"state", static_cast<const char*>(values.state)},   {"waiting_for", port.waiting_for}};
  if (values.lid != 0) out["lid"] = values.lid;
  if (values.sm_lid != 0) out["sm_lid"] = values.sm_lid;
  if (!is_zero(values.gid)) out["gid"] = gid_text(values.gid);
  return out;
}

std::string as_text(const Port& port) {
  const ibarp_port& values = port.values;
  std::string out = std::string("    ") + values.role + " " + values.device + " port " +
                    std::to_string(values.port) + "  " + ink_state(values.state);
  out += values.is_active != 0 ? ", active" : "";
  if (!port.waiting_for.empty()) out += ", waiting for " + port.waiting_for;
  return out + "\n";
}

/// "up", or what keeps it from being up.
std::string state_text(const ibarp_info& info) {
  std::string out = info.admin_up != 0 ? "" : "administratively down, link ";
  out += ink_state(info.state);
  if (info.waiting_for[0] != '\0') out += std::string(", waiting for ") + info.waiting_for;
  return out;
}

/// Lines about the interface; what is not known yet is left out.
std::string as_text(const ibarp_info& info) {
  const std::string indent = "    ";
  std::string out = indent + info.device + " port " + std::to_string(info.port);
  if (info.pkey != 0) out += "  pkey " + hexadecimal(info.pkey, 4);
  if (info.membership[0] != '\0') out += std::string(" ") + info.membership;
  if (info.lid != 0) out += "  lid " + lid_text(info.lid);
  if (info.sm_lid != 0) out += "  sm " + lid_text(info.sm_lid);
  if (info.qkey != 0) out += "  qkey " + hexadecimal(info.qkey, 8);
  if (info.mtu != 0) out += "  mtu " + std::to_string(info.mtu);
  out += "\n";
  if (info.hardware.qpn != 0) {
    out += indent + "lladdr " + ink(Ink::link_layer, text_of(info.hardware)) + "\n";
    out += indent + "qpn " + hexadecimal(info.hardware.qpn, 6) + "  gid " +
           ink(Ink::link_layer, gid_text(info.hardware.gid)) + "\n";
  }
  if (is_limited(info)) {
    out += indent + ink(Ink::bad, "limited member") +
           " of the partition: reaches full members, but not other limited members\n";
  }
  if (info.mtu != 0 && info.host_mtu > info.mtu) {
    out += indent + ink(Ink::bad, "mtu " + std::to_string(info.host_mtu)) +
           " of the interface is more than the link carries, by the MTU of the partition's "
           "broadcast group\n";
  }
  return out;
}

}  // namespace

json::object as_json(const ibarp_info& info) {
  json::object out{
      {"interface", static_cast<const char*>(info.interface)}, {"admin_up", info.admin_up != 0},
      {"state", static_cast<const char*>(info.state)},         {"waiting_for", info.waiting_for},
      {"device", static_cast<const char*>(info.device)},       {"port", info.port}};
  if (info.pkey != 0) out["pkey"] = hexadecimal(info.pkey, 4);
  if (info.qkey != 0) out["qkey"] = hexadecimal(info.qkey, 8);
  if (info.lid != 0) out["lid"] = info.lid;
  if (info.sm_lid != 0) out["sm_lid"] = info.sm_lid;
  if (info.membership[0] != '\0') out["membership"] = static_cast<const char*>(info.membership);
  if (info.mtu != 0) out["mtu"] = info.mtu;
  if (info.host_mtu != 0) out["host_mtu"] = info.host_mtu;
  if (info.port_mtu != 0) out["port_mtu"] = info.port_mtu;
  if (info.port_rate_mbps != 0) out["port_rate_mbps"] = info.port_rate_mbps;
  if (info.group_rate_mbps != 0) out["group_rate_mbps"] = info.group_rate_mbps;
  if (!is_zero(info.hardware.gid)) out["gid"] = gid_text(info.hardware.gid);
  if (info.hardware.qpn != 0) {
    out["qpn"] = info.hardware.qpn;
    out["lladdr"] = text_of(info.hardware);
  }
  out["version"] = static_cast<const char*>(info.version);
  out["pid"] = info.pid;
  return out;
}

std::string stats(const Client& client, const Command& command) {
  json::object drops;
  json::object others;
  table::Table drop_lines = pairs(table::Align::right);
  table::Table fault_lines = pairs(table::Align::right);
  table::Table other_lines = pairs(table::Align::right);
  std::size_t zeros = 0;
  for (const ibarp_counter& counter : client.counters()) {
    (counter.is_drop != 0 ? drops : others)[counter.name] = counter.value;
    if (counter.value == 0 && !command.zeros) {
      ++zeros;
      continue;
    }
    auto& lines = counter.is_drop != 0 ? drop_lines : is_fault(counter) ? fault_lines : other_lines;
    lines.add({std::string("    ") + counter.name, std::to_string(counter.value)});
  }
  if (command.json) {
    return json::serialize(
        json::object{{"interface", client.interface()}, {"counters", others}, {"drops", drops}});
  }
  std::string out = heading(client);
  if (!drop_lines.empty()) out += "  dropped:\n" + drop_lines.text(command.width);
  if (!fault_lines.empty()) out += "  failed:\n" + fault_lines.text(command.width);
  if (!other_lines.empty()) out += "  counted:\n" + other_lines.text(command.width);
  if (zeros > 0) out += "  (" + std::to_string(zeros) + " more are zero; -z shows them)\n";
  return out;
}

std::string log_levels(const Client& client, const Command& command) {
  for (const auto& [module, level] : command.levels) {
    client.check(ibarp_set_log_level(client.get(), module.c_str(), level.c_str()));
  }
  if (!command.json && !command.levels.empty()) return "";
  json::object levels;
  table::Table lines = pairs(table::Align::left);
  for (const ibarp_log_level& each : client.log_levels()) {
    levels[each.module] = static_cast<const char*>(each.level);
    lines.add({std::string("  ") + each.module, each.level});
  }
  if (!command.json) return heading(client) + lines.text(command.width);
  return json::serialize(json::object{{"interface", client.interface()}, {"levels", levels}});
}

std::string trace(const Client& client, const Command& command) {
  json::array records;
  std::string lines;
  for (const ibarp_trace_record& record : client.trace()) {
    if (command.json) {
      records.push_back(json::object{{"thread", static_cast<const char*>(record.thread)},
                                     {"when_ns", record.when_ns},
                                     {"keyword", static_cast<const char*>(record.keyword)},
                                     {"first", record.first},
                                     {"second", record.second}});
    } else {
      lines += seconds(record.when_ns) + " " + record.thread + " " + record.keyword + " " +
               hexadecimal(record.first, 1) + " " + hexadecimal(record.second, 1) + "\n";
    }
  }
  if (!command.json) return lines;
  return json::serialize(json::object{{"interface", client.interface()}, {"records", records}});
}

std::string info(const Client& client, const Command& command) {
  const ibarp_info info = client.info();
  const std::vector<Port> ports = client.ports();
  const std::vector<ibarp_group> groups = client.groups();
  if (command.json) {
    json::object out = as_json(info);
    json::array all_ports;
    for (const Port& port : ports) all_ports.push_back(port_as_json(port));
    if (!ports.empty()) out["ports"] = std::move(all_ports);
    json::array all;
    for (const ibarp_group& group : groups) all.push_back(membership_json(group));
    out["groups"] = std::move(all);
    return json::serialize(out);
  }
  std::string out =
      ink(Ink::interface, client.interface()) + ": " + state_text(info) + "\n" + as_text(info);
  for (const Port& port : ports) out += as_text(port);
  for (const ibarp_group& group : groups) {
    out += "    group " + gid_text(group.mgid) + "  mlid " + lid_text(group.mlid) + "  " +
           group.membership + "\n";
  }
  out += std::string("    ipoibd ") + info.version + "  pid " + std::to_string(info.pid) + "\n";
  return table::fold(out, command.width);
}

}  // namespace ipoib::ibarp
