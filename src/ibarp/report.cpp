// Prints reports about an interface: counters, log levels, trace, information.
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>

#include "run.hpp"
#include "table/table.hpp"
#include "text.hpp"

namespace ipoib::cli {

namespace json = boost::json;

namespace {

std::string heading(const Client& client) { return client.interface() + ":\n"; }

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

json::object as_json(const ibarp_group& group) {
  return {{"mgid", gid_text(group.mgid)},
          {"mlid", group.mlid},
          {"membership", static_cast<const char*>(group.membership)}};
}

json::object as_json(const ibarp_info& info) {
  return {{"interface", static_cast<const char*>(info.interface)},
          {"state", static_cast<const char*>(info.state)},
          {"waiting_for", static_cast<const char*>(info.waiting_for)},
          {"device", static_cast<const char*>(info.device)},
          {"port", info.port},
          {"pkey", info.pkey},
          {"qkey", info.qkey},
          {"lid", info.lid},
          {"qpn", info.hardware.qpn},
          {"gid", gid_text(info.hardware.gid)},
          {"lladdr", text_of(info.hardware)},
          {"mtu", info.mtu},
          {"version", static_cast<const char*>(info.version)},
          {"pid", info.pid}};
}

}  // namespace

std::string stats(const Client& client, const Command& command) {
  json::object drops;
  json::object others;
  table::Table drop_lines = pairs(table::Align::right);
  table::Table other_lines = pairs(table::Align::right);
  std::size_t zeros = 0;
  for (const ibarp_counter& counter : client.counters()) {
    (counter.is_drop != 0 ? drops : others)[counter.name] = counter.value;
    if (counter.value == 0 && !command.zeros) {
      ++zeros;
      continue;
    }
    (counter.is_drop != 0 ? drop_lines : other_lines)
        .add({std::string("  ") + counter.name, std::to_string(counter.value)});
  }
  if (command.json) {
    return json::serialize(
        json::object{{"interface", client.interface()}, {"counters", others}, {"drops", drops}});
  }
  std::string out = heading(client) + other_lines.text();
  if (!drop_lines.empty()) out += "  dropped:\n" + drop_lines.text();
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
  if (!command.json) return heading(client) + lines.text();
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
  const std::vector<ibarp_group> groups = client.groups();
  if (command.json) {
    json::object out = as_json(info);
    json::array all;
    for (const ibarp_group& group : groups) all.push_back(as_json(group));
    out["groups"] = std::move(all);
    return json::serialize(out);
  }
  const std::string indent = "    ";
  std::string out = client.interface() + ": " + info.state;
  if (info.waiting_for[0] != '\0') out += std::string(", waiting for ") + info.waiting_for;
  out += "\n" + indent + info.device + " port " + std::to_string(info.port) + "  pkey " +
         hexadecimal(info.pkey, 4) + "  lid " + lid_text(info.lid) + "  qkey " +
         hexadecimal(info.qkey, 8) + "  mtu " + std::to_string(info.mtu) + "\n";
  out += indent + "lladdr " + text_of(info.hardware) + "\n";
  out += indent + "qpn " + hexadecimal(info.hardware.qpn, 6) + "  gid " +
         gid_text(info.hardware.gid) + "\n";
  for (const ibarp_group& group : groups) {
    out += indent + "group " + gid_text(group.mgid) + "  mlid " + lid_text(group.mlid) + "  " +
           group.membership + "\n";
  }
  return out + indent + "ipoibd " + info.version + "  pid " + std::to_string(info.pid) + "\n";
}

}  // namespace ipoib::cli
