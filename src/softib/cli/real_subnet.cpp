// ibnetdiscover tells LIDs in comments only, which topology::parse_net() skips:
//
//   Switch 8 "S-0002c90200000001"    # "leaf 1" enhanced port 0 lid 4 lmc 0
//   Ca 1 "H-0002c90200000100"        # "host 1"
//   [1](2c90200000101) "S-0002c90200000001"[1]    # lid 5 lmc 0 "leaf 1" lid 4 4xQDR
//
// perfquery:
//
//   # Port extended counters: Lid 5 port 1 (CapMask: 0x5A00)
//   PortXmitData:....................1234
#include "softib/cli/real_subnet.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <cctype>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "ipoib/number.hpp"
#include "softib/topology/check.hpp"
#include "softib/topology/net_file.hpp"
#include "softib/topology/net_writer.hpp"

namespace softib::cli {

namespace json = boost::json;
using topology::End;
using topology::Topology;

namespace {

/// Calls `use` for each line of a text.
template <class Use>
void for_each_line(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    use(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

/// The number behind a word in a text.
std::optional<unsigned> number_after(std::string_view text, std::string_view word) {
  const auto at = text.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + word.size());
  const auto digits = std::ranges::find_if(
      text, [](char each) { return std::isdigit(static_cast<unsigned char>(each)) == 0; });
  return ipoib::parse_number<unsigned>(
      text.substr(0, static_cast<std::size_t>(digits - text.begin())));
}

/// A port by the GUID of its node; 0 is that of a switch.
using PortKey = std::pair<std::uint64_t, unsigned>;
using PortLids = std::map<PortKey, unsigned>;

/// The GUID in an ID such as "H-0002c90200000100".
std::optional<std::uint64_t> guid_in(std::string_view line) {
  const auto begin = line.find('"');
  const auto end = begin == std::string_view::npos ? begin : line.find('"', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  const auto id = line.substr(begin + 1, end - begin - 1);
  if (id.size() < 3 || id[1] != '-') return std::nullopt;
  return ipoib::parse_number<std::uint64_t>(id.substr(2), 16);
}

PortLids read_lids(std::string_view text) {
  PortLids lids;
  std::optional<std::uint64_t> node;
  for_each_line(text, [&](std::string_view line) {
    const auto comment = line.find('#');
    const auto said =
        comment == std::string_view::npos ? std::string_view() : line.substr(comment + 1);
    if (line.starts_with("Switch") || line.starts_with("Ca") || line.starts_with("Hca")) {
      node = guid_in(line);
      const auto at = said.rfind(" port 0 ");
      const auto lid =
          at == std::string_view::npos ? std::nullopt : number_after(said.substr(at), " lid ");
      if (node && line.starts_with("Switch") && lid) lids[{*node, 0}] = *lid;
    } else if (line.starts_with('[') && node && said.starts_with(" lid ")) {
      const auto port = number_after(line, "[");
      const auto lid = number_after(said, " lid ");
      if (port && lid) lids[{*node, *port}] = *lid;
    }
  });
  return lids;
}

/// By LID and port.
using Counters = std::map<std::pair<unsigned, unsigned>, json::object>;

Counters read_counters(std::string_view text) {
  Counters all;
  json::object* current = nullptr;
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with('#')) {
      const auto lid = number_after(line, "Lid ");
      const auto port = number_after(line, "port ");
      current = lid && port ? &(all[{*lid, *port}] = json::object()) : nullptr;
      return;
    }
    const auto colon = line.find(':');
    const auto digits =
        line.find_first_not_of('.', colon == std::string_view::npos ? 0 : colon + 1);
    if (current == nullptr || colon == std::string_view::npos || digits == std::string_view::npos ||
        line.substr(0, colon).ends_with("Select")) {
      return;
    }
    auto value_text = line.substr(digits);
    if (value_text.ends_with('\r')) value_text.remove_suffix(1);
    const auto value = ipoib::parse_number<std::uint64_t>(value_text);
    if (value) (*current)[line.substr(0, colon)] = *value;
  });
  return all;
}

std::uint64_t value_in(const json::object& counters, std::string_view name) {
  const auto* const value = counters.if_contains(name);
  if (value == nullptr) return 0;
  if (const auto* const number = value->if_uint64()) return *number;
  return static_cast<std::uint64_t>(value->as_int64());
}

/// PortXmitData and PortRcvData count words of four bytes.
std::uint64_t bytes_of(const json::object& counters, std::string_view name) {
  const auto words = value_in(counters, name);
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  return words > kMost / 4 ? kMost : words * 4;
}

std::string guid_text(std::uint64_t value) {
  std::array<char, 24> text{};
  (void)std::snprintf(text.data(), text.size(), "0x%016llx",
                      static_cast<unsigned long long>(value));
  return text.data();
}

/// Makes the object of a topology with LIDs and counters.
class RealSubnetWriter {
 public:
  RealSubnetWriter(const Topology& topology, const PortLids& lids, const Counters& counters)
      : topology_(topology), lids_(lids), counters_(counters), ports_(topology.switches.size()) {
    for (const auto& hca : topology.hcas) nodes_.push_back(node(hca));
    for (const auto& cable : topology.cables) {
      add_end(cable.a, cable.b, cable);
      add_end(cable.b, cable.a, cable);
    }
  }
  [[nodiscard]] json::array take_nodes() { return std::move(nodes_); }
  [[nodiscard]] json::array switches() {
    json::array out;
    for (std::size_t i = 0; i < topology_.switches.size(); ++i) {
      const auto& each = topology_.switches[i];
      std::ranges::sort(ports_[i], {},
                        [](const json::object& port) { return value_in(port, "port"); });
      out.push_back({{"switch", i},
                     {"name", each.name},
                     {"description", topology::description_of(each)},
                     {"lid", lid_of(each.guid, 0)},
                     {"guid", guid_text(each.guid.value())},
                     {"state", "present"},
                     {"port_count", each.ports},
                     {"ports", json::array(ports_[i].begin(), ports_[i].end())}});
    }
    return out;
  }

 private:
  [[nodiscard]] unsigned lid_of(Guid guid, unsigned port) const {
    const auto found = lids_.find({guid.value(), port});
    return found == lids_.end() ? 0 : found->second;
  }
  [[nodiscard]] json::object counters_of(unsigned lid, unsigned port) const {
    const auto found = counters_.find({lid, port});
    return lid == 0 || found == counters_.end() ? json::object() : found->second;
  }
  /// An HCA before its cables are known.
  [[nodiscard]] static json::object node(const topology::Hca& hca) {
    return {
        {"name", hca.name},          {"description", topology::description_of(hca)}, {"lid", 0},
        {"state", "down"},           {"node_guid", guid_text(hca.guid.value())},     {"switch", ""},
        {"counters", json::object()}};
  }
  void add_end(const End& here, const End& there, const topology::Cable& cable) {
    here.is_switch ? add_port(here, there, cable) : connect(here, there, cable);
  }
  void add_port(const End& here, const End& there, const topology::Cable& cable) {
    const auto& from = topology_.switches[here.index];
    const auto counters = counters_of(lid_of(from.guid, 0), here.port);
    json::object port{{"port", here.port},
                      {"state", "active"},
                      {"link", topology::rate_text(cable)},
                      {"sent_packets", value_in(counters, "PortXmitPkts")},
                      {"sent_bytes", bytes_of(counters, "PortXmitData")},
                      {"discards", value_in(counters, "PortXmitDiscards")},
                      {"counters", counters}};
    if (there.is_switch) {
      port["to"] = topology_.switches[there.index].name;
      port["to_port"] = there.port;
    } else {
      port["hca"] = topology_.hcas[there.index].name;
      port["hca_port"] = there.port;
    }
    ports_[here.index].push_back(std::move(port));
  }
  /// The first port with a cable to a switch stands for the HCA.
  void connect(const End& here, const End& there, const topology::Cable& cable) {
    auto& node = nodes_[here.index].as_object();
    if (!there.is_switch || node["state"] != "down") return;
    const unsigned lid = lid_of(topology_.hcas[here.index].guid, here.port);
    auto counters = counters_of(lid, here.port);
    counters["sent_bytes"] = bytes_of(counters, "PortXmitData");
    counters["received_bytes"] = bytes_of(counters, "PortRcvData");
    node["lid"] = lid;
    node["port"] = here.port;
    node["state"] = "active";
    node["switch"] = topology_.switches[there.index].name;
    node["switch_port"] = there.port;
    node["link"] = topology::rate_text(cable);
    node["counters"] = std::move(counters);
  }

  const Topology& topology_;
  const PortLids& lids_;
  const Counters& counters_;
  json::array nodes_;
  std::vector<std::vector<json::object>> ports_;  ///< of each switch
};

}  // namespace

ipoib::Result<RealSubnet> real_subnet(std::string_view ibnetdiscover, const std::string& name,
                                      std::string_view counters) {
  const auto file = topology::parse_net(ibnetdiscover, name);
  if (!file) return file.error();
  const auto lids = read_lids(ibnetdiscover);
  const auto read = read_counters(counters);
  RealSubnetWriter writer(file->topology, lids, read);
  auto nodes = writer.take_nodes();
  return RealSubnet{{{"subnet", name},
                     {"source", "ibnetdiscover"},
                     {"nodes", std::move(nodes)},
                     {"switches", writer.switches()},
                     {"partitions", json::array()},
                     {"groups", json::array()},
                     {"remarks", json::array(file->remarks.begin(), file->remarks.end())}},
                    file->topology};
}

}  // namespace softib::cli
