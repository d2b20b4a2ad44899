#include "softib/cli/cm_view.hpp"

#include <array>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <string_view>

#include "softib/cm/connection.hpp"
#include "softib/cm/counters.hpp"
#include "softib/rdma_cm/id_status.hpp"

namespace softib::cli {

namespace json = boost::json;

namespace {

using ipoib::table::Align;
using ipoib::table::Table;

constexpr std::array<std::string_view, 4> kCounted{"sent", "resent", "received", "duplicates"};

template <class Number>
std::string hex(Number value) {
  std::array<char, 24> text{};
  const int size = std::snprintf(text.data(), text.size(), "0x%0*llx", 2 * int{sizeof value},
                                 static_cast<unsigned long long>(value));
  return {text.data(), static_cast<std::size_t>(size)};
}

std::string printable(std::string_view name) {
  std::string out;
  for (const char each : name) out += each > ' ' && each <= '~' ? each : '?';
  return out;
}

json::object describe(const rdma_cm::IdStatus& id) {
  json::object out{{"id", id.handle.value()},
                   {"port_space", rdma_cm::name(id.space)},
                   {"state", rdma_cm::name(id.state)}};
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) out[key] = value;
  };
  if (id.connection) out["connection"] = cm::kConnectionStates.at(*id.connection);
  add("source", rdma_cm::to_string(id.source));
  add("destination", rdma_cm::to_string(id.destination));
  if (id.service.value() != 0) out["service_id"] = hex(id.service.value());
  if (id.local_id != CommId()) out["local_comm_id"] = hex(id.local_id.value());
  if (id.remote_id != CommId()) out["remote_comm_id"] = hex(id.remote_id.value());
  if (id.qpn != Qpn()) out["qpn"] = id.qpn.value();
  return out;
}

std::string cell(const json::object& object, std::string_view key) {
  const auto* const value = object.if_contains(key);
  if (value == nullptr) return "-";
  return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
}

/// The cells of a process, such as "b 4711 rping": node, process, its name.
std::vector<std::string> process_cells(const json::object& process) {
  return {cell(process, "node"), cell(process, "pid"), cell(process, "program")};
}

Table ids_table(const json::array& processes) {
  constexpr std::array<std::string_view, 9> kKeys{"port_space",    "state",          "connection",
                                                  "source",        "destination",    "service_id",
                                                  "local_comm_id", "remote_comm_id", "qpn"};
  Table table({{"NODE"},
               {"PID", Align::right},
               {"PROGRAM"},
               {"SPACE"},
               {"STATE"},
               {"CONNECTION"},
               {"SOURCE"},
               {"DESTINATION"},
               {"SERVICE ID", Align::left, 2},
               {"LOCAL ID", Align::left, 4},
               {"REMOTE ID", Align::left, 3},
               {"QP", Align::right, 1}});
  for (const auto& value : processes) {
    const auto& process = value.get_object();
    for (const auto& id : process.at("ids").get_array()) {
      auto row = process_cells(process);
      for (const auto key : kKeys) row.push_back(cell(id.get_object(), key));
      table.add(std::move(row));
    }
  }
  return table;
}

Table messages_table(const json::array& processes) {
  Table table({{"NODE"},
               {"PID", Align::right},
               {"PROGRAM"},
               {"MESSAGE"},
               {"SENT", Align::right},
               {"RESENT", Align::right},
               {"RECEIVED", Align::right},
               {"DUPLICATES", Align::right},
               {"DROPPED", Align::right}});
  for (const auto& value : processes) {
    const auto& process = value.get_object();
    for (const auto& [message, counted] : process.at("messages").get_object()) {
      auto row = process_cells(process);
      row.emplace_back(message);
      for (const auto key : kCounted) row.push_back(cell(counted.get_object(), key));
      row.emplace_back("-");
      table.add(std::move(row));
    }
    for (const auto& [why, count] : process.at("drops").get_object()) {
      auto row = process_cells(process);
      row.insert(row.end(), {std::string(why), "-", "-", "-", "-", json::serialize(count)});
      table.add(std::move(row));
    }
  }
  return table;
}

}  // namespace

json::object cm_process_json(const std::string& node, int pid, const fabric::CmTable& table) {
  json::array ids;
  for (const auto& entry : table.entries) {
    if (const auto id = rdma_cm::IdStatus::parse(entry)) ids.push_back(describe(*id));
  }
  const auto counters = cm::Counters::of(table.counters);
  json::object messages;
  for (std::size_t message = 0; message < cm::kMessages; ++message) {
    const std::array counts{counters.sent.at(message), counters.retries.at(message),
                            counters.received.at(message), counters.duplicates.at(message)};
    if (counts == decltype(counts){}) continue;
    json::object counted;
    for (std::size_t i = 0; i < counts.size(); ++i) counted[kCounted.at(i)] = counts.at(i);
    messages[cm::kMessageNames.at(message)] = std::move(counted);
  }
  json::object drops;
  for (std::size_t why = 0; why < cm::kDropNames.size(); ++why) {
    if (counters.drops.at(why) != 0) drops[cm::kDropNames.at(why)] = counters.drops.at(why);
  }
  return {{"node", node},
          {"pid", pid},
          {"program", printable(table.program)},
          {"ids", std::move(ids)},
          {"unlisted_ids", table.unlisted},
          {"messages", std::move(messages)},
          {"drops", std::move(drops)}};
}

json::object cm_json(const fabric::Fabric& fabric, const fabric::SubnetFolder& folder) {
  json::array processes;
  for (NodeIndex index = 0; index < fabric.nodes(); ++index) {
    const auto node = fabric.node(index);
    if (!node) continue;
    for (const auto& process : fabric::attached_processes(fabric, folder, index)) {
      const auto table = fabric::read_cm_table(folder, {index, process.slot}, process.epoch);
      if (table) processes.push_back(cm_process_json(node->name, process.pid, *table));
    }
  }
  return {
      {"subnet", folder.name()}, {"folder", folder.path()}, {"processes", std::move(processes)}};
}

std::string cm_text(const json::object& cm, std::size_t width) {
  const auto& processes = cm.at("processes").get_array();
  std::string out = ids_table(processes).text(width);
  for (const auto& value : processes) {
    const auto& process = value.get_object();
    const std::string unlisted = cell(process, "unlisted_ids");
    if (unlisted == "0") continue;
    out += cell(process, "node") + ' ' + cell(process, "pid") + ' ' + cell(process, "program") +
           ": " + unlisted + " more\n";
  }
  const Table messages = messages_table(processes);
  return messages.empty() ? out : out + '\n' + messages.text(width);
}

}  // namespace softib::cli
