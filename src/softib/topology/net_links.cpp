#include <algorithm>
#include <cerrno>
#include <set>

#include "softib/topology/check.hpp"
#include "softib/topology/net_nodes.hpp"
#include "softib/topology/node_names.hpp"

namespace softib::topology {

namespace {

using ipoib::Error;
using ipoib::Result;

std::string port_of(unsigned port, const std::string& node) {
  return "port " + std::to_string(port) + " of " + shown(node);
}

/// The greatest of the bits, which are in descending order; 0 if there is none.
template <std::size_t kSize>
std::uint8_t greatest(unsigned bits, const std::array<std::uint8_t, kSize>& descending) {
  for (const auto bit : descending) {
    if ((bits & bit) != 0) return bit;
  }
  return 0;
}

constexpr std::array<std::uint8_t, 5> kWidths{8, 4, 2, 16, 1};      // 12x, 8x, 4x, 2x, 1x
constexpr std::array<std::uint8_t, 3> kSpeeds{4, 2, 1};             // QDR, DDR, SDR
constexpr std::array<std::uint8_t, 4> kExtendedSpeeds{8, 4, 2, 1};  // NDR, HDR, EDR, FDR

/// Makes a topology of the records. Owns what is not finished of it.
class Linker {
 public:
  explicit Linker(NetRecords records)
      : records_(std::move(records)), ends_(records_.nodes.size()) {}

  Result<NetFile> run() {
    add_names();
    for (std::size_t i = 0; i < records_.nodes.size(); ++i) {
      if (auto added = add_node(i); !added) return added.error();
    }
    for (std::size_t i = 0; i < records_.nodes.size(); ++i) {
      const auto& node = records_.nodes[i];
      if (node.kind == NetNode::Kind::skipped) continue;
      for (const auto& [port, line] : node.port_lines) {
        if (!line.far_end) continue;
        if (auto added = add_cable(i, port, line); !added) return added.error();
      }
    }
    NetFile out{canonical(std::move(topology_)), std::move(records_.remarks),
                records_.more_remarks};
    if (auto checked = check(out.topology); !checked) return checked.error();
    return out;
  }

 private:
  struct Place {
    std::size_t node = 0;
    unsigned port = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  [[nodiscard]] Error error(const Position& at, const std::string& why) const {
    return {EINVAL, records_.located(at, why)};
  }

  /// IDs that are names come first, so that names like descriptions avoid them.
  void add_names() {
    NodeNames names;
    names_.resize(records_.nodes.size());
    for (std::size_t i = 0; i < records_.nodes.size(); ++i) {
      const auto& node = records_.nodes[i];
      if (node.kind != NetNode::Kind::skipped && node.id_is_name && names.take(node.id)) {
        names_[i] = node.id;
      }
    }
    for (std::size_t i = 0; i < records_.nodes.size(); ++i) {
      const auto& node = records_.nodes[i];
      if (node.kind == NetNode::Kind::skipped || !names_[i].empty()) continue;
      std::string name = node.id_is_name ? std::string() : name_like(node.description);
      if (name.empty()) name = name_like(node.id);
      if (name.empty()) name = node.kind == NetNode::Kind::hca ? "hca" : "switch";
      names_[i] = names.take_like(name);
    }
  }

  Result<void> add_node(std::size_t number) {
    const auto& node = records_.nodes[number];
    if (node.kind == NetNode::Kind::skipped) return {};
    if (node.guid != Guid() && !node_guids_.insert(node.guid).second) {
      return error(node.at, "another node has the GUID of " + shown(node.id));
    }
    if (node.kind == NetNode::Kind::switch_node) {
      ends_[number] = {true, static_cast<std::uint16_t>(topology_.switches.size()), 0};
      topology_.switches.push_back(
          {names_[number], node.description, node.guid, static_cast<std::uint8_t>(node.ports)});
      return add_port_guid(node, node.guid);
    }
    Hca hca{names_[number], node.description, node.guid,
            static_cast<std::uint8_t>(std::min<unsigned>(node.ports, kMaxHcaPorts)),
            node.port_guids};
    if (node.ports > kMaxHcaPorts) {
      records_.remark(node.at, shown(node.id) + " has " + std::to_string(node.ports) +
                                   " ports; those above " + std::to_string(kMaxHcaPorts) +
                                   " are skipped");
    }
    for (unsigned port = 1; port <= hca.ports; ++port) {
      const Guid given = hca.port_guids[port - 1];
      const bool follows = given == Guid() && node.guid != Guid();
      auto added = add_port_guid(node, follows ? Guid(node.guid.value() + port) : given);
      if (!added) return added;
    }
    ends_[number] = {false, static_cast<std::uint16_t>(topology_.hcas.size()), 0};
    topology_.hcas.push_back(std::move(hca));
    return {};
  }

  Result<void> add_port_guid(const NetNode& node, Guid guid) {
    if (guid == Guid() || port_guids_.insert(guid).second) return {};
    return error(node.at, "another port has a port GUID of " + shown(node.id));
  }

  /// The node and port at the far end; nullopt if that is skipped.
  Result<std::optional<Place>> find(const FarEnd& far) {
    if (far.is_alias) {
      const auto alias = records_.aliases.find(far.node);
      if (alias == records_.aliases.end()) {
        return error(far.at, "no port has the alias " + shown(far.node));
      }
      return std::optional(Place{alias->second.first, alias->second.second});
    }
    const auto found = records_.by_id.find(far.node);
    if (found != records_.by_id.end()) {
      const bool skipped = records_.nodes[found->second].kind == NetNode::Kind::skipped;
      if (skipped) records_.remark(far.at, "the cable to " + shown(far.node) + " is skipped");
      if (skipped) return std::optional<Place>();
      return std::optional(Place{found->second, far.port});
    }
    if (guid_of_node_id(far.node) && (far.node[0] == 'R' || far.node[0] == '?')) {
      records_.remark(far.at, "the cable to " + shown(far.node) + " is skipped");
      return std::optional<Place>();
    }
    return error(far.at, "no node " + shown(far.node) + " is in the file");
  }

  /// Checks that the port line at the far end names the near end.
  Result<void> check_far_line(const Place& near, const FarEnd& far, const Place& there) {
    const auto& node = records_.nodes[there.node];
    if (there.port < 1 || there.port > node.ports) {
      return error(far.at, shown(node.id) + " has ports 1 to " + std::to_string(node.ports) +
                               ", not " + std::to_string(there.port));
    }
    if (there == near) return error(far.at, "a cable from a port to itself");
    const auto line = node.port_lines.find(there.port);
    const bool has_cable = line != node.port_lines.end() && line->second.far_end;
    const std::string who = port_of(there.port, node.id);
    if (far.is_alias) {
      if (!has_cable && aliases_in_use_.insert(there).second) return {};
      return error(far.at, who + ", which has this alias, has another cable");
    }
    if (!has_cable) {
      return error(far.at, who + " has no cable; expected one to " +
                               port_of(near.port, records_.nodes[near.node].id));
    }
    // No ID is an alias: it has no '@'.
    const auto& back = *line->second.far_end;
    const auto found = records_.by_id.find(back.node);
    const bool is_back = found != records_.by_id.end() && Place{found->second, back.port} == near;
    if (is_back) return {};
    return error(far.at, who + " has a cable to " +
                             (back.is_alias ? shown(back.node) : port_of(back.port, back.node)) +
                             "; expected " + port_of(near.port, records_.nodes[near.node].id));
  }

  Result<void> add_cable(std::size_t number, unsigned port, const NetPort& line) {
    const FarEnd& far = *line.far_end;
    const auto found = find(far);
    if (!found) return found.error();
    if (!*found) return {};
    const Place near{number, port};
    const Place there = **found;
    if (auto checked = check_far_line(near, far, there); !checked) return checked;
    if (!far.is_alias && there < near) return {};  // added from there
    for (const auto& [node, end_port] : {near, there}) {
      if (!ends_[node].is_switch && end_port > kMaxHcaPorts) {
        records_.remark(
            far.at, "the cable of " + port_of(end_port, records_.nodes[node].id) + " is skipped");
        return {};
      }
    }
    const auto rates = rates_of(there);
    Cable cable{end_of(near), end_of(there), greatest(line.rates.width & rates.width, kWidths),
                greatest(line.rates.speed & rates.speed, kSpeeds),
                greatest(line.rates.extended_speed & rates.extended_speed, kExtendedSpeeds)};
    if (cable.width == 0 || cable.speed == 0) {
      return error(far.at, "the ends of the cable have no " +
                               std::string(cable.width == 0 ? "width" : "speed") + " in common");
    }
    topology_.cables.push_back(cable);
    return {};
  }

  [[nodiscard]] EnabledRates rates_of(const Place& place) const {
    const auto& node = records_.nodes[place.node];
    const auto line = node.port_lines.find(place.port);
    return line == node.port_lines.end() ? node.rates : line->second.rates;
  }

  [[nodiscard]] End end_of(const Place& place) const {
    End end = ends_[place.node];
    end.port = static_cast<std::uint8_t>(place.port);
    return end;
  }

  NetRecords records_;
  std::vector<End> ends_;  ///< of nodes; the port is 0
  std::vector<std::string> names_;
  std::set<Guid> node_guids_;
  std::set<Guid> port_guids_;
  std::set<Place> aliases_in_use_;
  Topology topology_;
};

}  // namespace

std::string NetRecords::located(const Position& at, const std::string& text) const {
  return files[at.file] + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " +
         text;
}

void NetRecords::remark(const Position& at, const std::string& text) {
  if (remarks.size() == kMaxRemarks) {
    ++more_remarks;
  } else {
    remarks.push_back(located(at, text));
  }
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 64;
  std::string out(text.substr(0, kMost));
  std::ranges::replace_if(
      out, [](char c) { return c < ' ' || c > '~'; }, '?');
  return "\"" + out + (text.size() > kMost ? "...\"" : "\"");
}

ipoib::Result<NetFile> link_records(NetRecords records) { return Linker(std::move(records)).run(); }

}  // namespace softib::topology
