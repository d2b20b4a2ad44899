#include "softib/cli/topology_view.hpp"

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "softib/topology/check.hpp"
#include "softib/topology/guids.hpp"
#include "softib/topology/picture.hpp"
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

Guid guid_of(const json::object& object, std::string_view key) {
  return Guid(std::strtoull(json::value_to<std::string>(object.at(key)).c_str(), nullptr, 0));
}

template <class Number>
Number number_of(const json::object& object, std::string_view key) {
  return json::value_to<Number>(object.at(key));
}

/// Reads the switches, HCAs and cables in the answer to `show`.
class SubnetReader {
 public:
  explicit SubnetReader(const json::object& subnet) {
    for (const auto& value : subnet.at("switches").as_array()) read_switch(value.as_object());
    for (const auto& value : subnet.at("nodes").as_array()) read_hca(value.as_object());
    for (const auto& value : subnet.at("switches").as_array()) read_cables(value.as_object());
  }
  [[nodiscard]] SubnetTopology take() {
    read_.file.topology = topology::canonical(std::move(read_.file.topology));
    return std::move(read_);
  }

 private:
  [[nodiscard]] Topology& topology() { return read_.file.topology; }
  void read_switch(const json::object& from) {
    const auto name = json::value_to<std::string>(from.at("name"));
    switches_[name] = static_cast<std::uint16_t>(topology().switches.size());
    topology().switches.push_back({name, json::value_to<std::string>(from.at("description")),
                                   guid_of(from, "guid"),
                                   number_of<std::uint8_t>(from, "port_count")});
    read_.lids.switches.emplace_back(number_of<std::uint16_t>(from, "lid"));
  }
  /// The node of a switch is none; each other one is a port of an HCA.
  void read_hca(const json::object& from) {
    if (json::value_to<std::string>(from.at("switch")).empty()) return;
    const auto name = json::value_to<std::string>(from.at("name"));
    const auto [known, is_new] =
        hcas_.try_emplace(name, static_cast<std::uint16_t>(topology().hcas.size()));
    const std::uint16_t index = known->second;
    if (is_new) {
      topology().hcas.push_back({name,
                                 json::value_to<std::string>(from.at("description")),
                                 guid_of(from, "node_guid"),
                                 number_of<std::uint8_t>(from, "ports"),
                                 {}});
      read_.lids.hcas.emplace_back();
    }
    const auto port = number_of<std::uint8_t>(from, "port");
    topology().hcas[index].port_guids[port - 1U] = guid_of(from, "port_guid");
    read_.lids.hcas[index][port - 1U] = Lid(number_of<std::uint16_t>(from, "lid"));
    read_.lids.lmc = number_of<std::uint8_t>(from, "lmc");
    const auto at = switches_.find(json::value_to<std::string>(from.at("switch")));
    const auto switch_port = number_of<unsigned>(from, "switch_port");
    if (at == switches_.end() || switch_port > topology::kMaxSwitchPorts) return;
    topology().cables.push_back(cable({true, at->second, static_cast<std::uint8_t>(switch_port)},
                                      {false, index, port}, from));
  }
  /// Both ends name a cable between switches; it is taken from the smaller one.
  void read_cables(const json::object& from) {
    const auto index = switches_.at(json::value_to<std::string>(from.at("name")));
    for (const auto& value : from.at("ports").as_array()) {
      const auto& port = value.as_object();
      if (!port.contains("to")) continue;
      const End here{true, index, number_of<std::uint8_t>(port, "port")};
      const End there{true, switches_.at(json::value_to<std::string>(port.at("to"))),
                      number_of<std::uint8_t>(port, "to_port")};
      if (here < there) topology().cables.push_back(cable(here, there, port));
    }
  }
  static topology::Cable cable(const End& a, const End& b, const json::object& from) {
    return {a, b, number_of<std::uint8_t>(from, "link_width"),
            number_of<std::uint8_t>(from, "link_speed"), 0};
  }

  SubnetTopology read_;
  std::map<std::string, std::uint16_t> switches_;
  std::map<std::string, std::uint16_t> hcas_;
};

}  // namespace

SubnetTopology topology_of(const json::object& subnet) { return SubnetReader(subnet).take(); }

std::string unknown_topology_format(const std::string& format) {
  std::string all;
  for (const auto each : kTopologyFormats) all += (all.empty() ? "" : ", ") + std::string(each);
  return "unknown format '" + format + "'; formats are " + all;
}

std::string topology_text(std::string_view format, const topology::NetFile& file,
                          const topology::Lids& lids, const std::string& title) {
  if (format == "net") return topology::write_net(file.topology);
  if (format == "ibnetdiscover") {
    return topology::write_ibnetdiscover(topology::with_guids(file.topology, 0), lids);
  }
  if (format == "dot") return topology::write_dot(file.topology, title);
  if (format == "svg") return topology::write_svg(file.topology, title);
  if (format == "json") return json::serialize(topology_json(file)) + '\n';
  return topology_summary(file.topology);
}

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
