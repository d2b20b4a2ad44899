#include "softib/cli/topology_view.hpp"

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <utility>

#include "softib/topology/check.hpp"
#include "softib/topology/net_writer.hpp"
#include "softib/topology/summary.hpp"

namespace softib::cli {

namespace json = boost::json;
using topology::End;
using topology::Topology;

namespace {

/// null for 0: the file or shape gives none.
json::value guid_json(Guid guid) {
  if (guid == Guid()) return nullptr;
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "0x%016llx",
                      static_cast<unsigned long long>(guid.value()));
  return json::string(text.data());
}

json::object end_json(const Topology& topology, const End& end) {
  return {{"node", topology::name_of(topology, end)}, {"port", end.port}};
}

json::object summary_json(const topology::Summary& summary) {
  json::array levels;
  for (const auto& level : summary.levels) {
    levels.push_back({{"switches", level.switches},
                      {"cables_down", level.cables_down},
                      {"cables_up", level.cables_up},
                      {"cables_within", level.cables_within}});
  }
  json::object rates;
  for (const auto& [rate, count] : summary.rates) rates[rate] = count;
  json::value diameter;
  if (summary.diameter) diameter = *summary.diameter;
  return {{"switches", summary.switches}, {"hcas", summary.hcas},
          {"cables", summary.cables},     {"unconnected_hcas", summary.unconnected_hcas},
          {"parts", summary.parts},       {"levels", std::move(levels)},
          {"diameter", diameter},         {"rates", std::move(rates)}};
}

std::string counted(std::size_t count, const std::string& what, const std::string& more) {
  return std::to_string(count) + ' ' + (count == 1 ? what : more);
}

}  // namespace

json::object topology_json(const topology::NetFile& file) {
  const auto& topology = file.topology;
  json::array switches;
  for (const auto& each : topology.switches) {
    switches.push_back({{"name", each.name},
                        {"description", topology::description_of(each)},
                        {"guid", guid_json(each.guid)},
                        {"ports", each.ports}});
  }
  json::array hcas;
  for (const auto& each : topology.hcas) {
    json::array port_guids;
    for (unsigned port = 1; port <= each.ports; ++port) {
      const Guid given = each.port_guids[port - 1];
      const bool follows = given == Guid() && each.guid != Guid();
      port_guids.push_back(guid_json(follows ? Guid(each.guid.value() + port) : given));
    }
    hcas.push_back({{"name", each.name},
                    {"description", topology::description_of(each)},
                    {"guid", guid_json(each.guid)},
                    {"ports", each.ports},
                    {"port_guids", std::move(port_guids)}});
  }
  json::array cables;
  for (const auto& each : topology.cables) {
    cables.push_back({{"a", end_json(topology, each.a)},
                      {"b", end_json(topology, each.b)},
                      {"rate", topology::rate_text(each)},
                      {"width", each.width},
                      {"speed", each.speed},
                      {"extended_speed", each.extended_speed}});
  }
  return {{"switches", std::move(switches)},
          {"hcas", std::move(hcas)},
          {"cables", std::move(cables)},
          {"summary", summary_json(topology::summarize(topology))},
          {"remarks", json::array(file.remarks.begin(), file.remarks.end())},
          {"more_remarks", file.more_remarks}};
}

std::string topology_summary(const Topology& topology) {
  const auto summary = topology::summarize(topology);
  std::string out = "switches  " + std::to_string(summary.switches);
  if (summary.parts > 1) {
    out += " in " + std::to_string(summary.parts) + " parts that are not connected";
  }
  out += "\nHCAs      " + std::to_string(summary.hcas);
  if (summary.unconnected_hcas > 0) {
    out += ", " + std::to_string(summary.unconnected_hcas) + " without a cable";
  }
  out += "\ncables    " + std::to_string(summary.cables);
  std::string separator = ": ";
  for (const auto& [rate, count] : summary.rates) {
    out += std::exchange(separator, ", ") + std::to_string(count) + ' ' + rate;
  }
  out += '\n';
  for (std::size_t i = 0; i < summary.levels.size(); ++i) {
    const auto& level = summary.levels[i];
    out += "level " + std::to_string(i + 1) + "   " +
           counted(level.switches, "switch", "switches") + ", " +
           counted(level.cables_down, "cable", "cables") + (i == 0 ? " to HCAs" : " down");
    if (level.cables_up > 0) out += ", " + std::to_string(level.cables_up) + " up";
    if (level.cables_within > 0) {
      out += ", " + std::to_string(level.cables_within) + " within the level";
    }
    out += '\n';
  }
  if (summary.diameter) {
    out += "diameter  " + counted(*summary.diameter, "cable", "cables") + " between two HCAs\n";
  }
  return out;
}

}  // namespace softib::cli
