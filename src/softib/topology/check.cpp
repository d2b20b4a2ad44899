#include "softib/topology/check.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <set>
#include <string>
#include <utility>

#include "softib/core/name.hpp"

namespace softib::topology {

namespace {

using ipoib::Error;
using ipoib::Result;

constexpr unsigned kMostWidth = 16;         ///< LinkWidthActive: 2x
constexpr unsigned kMostSpeed = 4;          ///< LinkSpeedActive: QDR
constexpr unsigned kMostExtendedSpeed = 8;  ///< LinkSpeedExtActive: NDR

Error invalid(std::string why) { return {EINVAL, std::move(why)}; }

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

/// Checks nodes one after the other: what no two of them may share.
class Nodes {
 public:
  template <class Node>
  Result<void> add(const Node& node, std::string_view kind, unsigned max_ports) {
    if (!is_valid_name(node.name)) return invalid_name(kind, node.name);
    const std::string who = std::string(kind) + " " + quoted(node.name);
    if (!names_.insert(node.name).second)
      return invalid("two nodes are named " + quoted(node.name));
    if (!is_valid_description(node.description)) {
      return invalid("the description of " + who + " is not at most " +
                     std::to_string(kMaxDescription) + " printable characters without quotes");
    }
    if (node.ports < 1 || node.ports > max_ports) {
      return invalid(who + " has " + std::to_string(node.ports) + " ports; expected 1 to " +
                     std::to_string(max_ports));
    }
    if (node.guid != Guid() && !node_guids_.insert(node.guid).second) {
      return invalid("the GUID of " + who + " is that of another node, too");
    }
    return {};
  }

  Result<void> add_port(Guid guid, const std::string& node) {
    if (guid == Guid() || port_guids_.insert(guid).second) return {};
    return invalid("a port GUID of " + quoted(node) + " is that of another port, too");
  }

 private:
  std::set<std::string_view> names_;
  std::set<Guid> node_guids_;
  std::set<Guid> port_guids_;
};

/// The port GUID that follows from the node's, or 0 if that is not given.
Guid following_guid(Guid node, unsigned port) {
  return node == Guid() ? Guid() : Guid(node.value() + port);
}

Result<void> check_nodes(const Topology& topology) {
  Nodes nodes;
  for (const auto& each : topology.switches) {
    if (auto checked = nodes.add(each, "switch", kMaxSwitchPorts); !checked) return checked;
    if (auto checked = nodes.add_port(each.guid, each.name); !checked) return checked;
  }
  for (const auto& each : topology.hcas) {
    if (auto checked = nodes.add(each, "HCA", kMaxHcaPorts); !checked) return checked;
    for (unsigned port = 1; port <= each.ports; ++port) {
      const Guid given = each.port_guids[port - 1];
      const Guid guid = given == Guid() ? following_guid(each.guid, port) : given;
      if (auto checked = nodes.add_port(guid, each.name); !checked) return checked;
    }
    for (unsigned port = each.ports; port < kMaxHcaPorts; ++port) {
      if (each.port_guids[port] != Guid()) {
        return invalid(quoted(each.name) + " has a GUID for port " + std::to_string(port + 1) +
                       ", which it does not have");
      }
    }
  }
  return {};
}

Result<void> check_end(const Topology& topology, const End& end) {
  const std::size_t nodes = end.is_switch ? topology.switches.size() : topology.hcas.size();
  if (end.index >= nodes) return invalid("a cable ends at a node that does not exist");
  const unsigned ports =
      end.is_switch ? topology.switches[end.index].ports : topology.hcas[end.index].ports;
  if (end.port >= 1 && end.port <= ports) return {};
  return invalid("a cable ends at port " + std::to_string(end.port) + " of " +
                 quoted(name_of(topology, end)) + ", which has ports 1 to " +
                 std::to_string(ports));
}

bool is_one_of(unsigned bit, unsigned most) { return std::has_single_bit(bit) && bit <= most; }

}  // namespace

bool is_valid_description(std::string_view text) {
  return text.size() <= kMaxDescription &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != '"'; });
}

ipoib::Result<void> check(const Topology& topology) {
  if (topology.switches.size() > kMaxSwitches) {
    return invalid("more than " + std::to_string(kMaxSwitches) + " switches");
  }
  if (topology.hcas.size() > kMaxHcas) {
    return invalid("more than " + std::to_string(kMaxHcas) + " HCAs");
  }
  if (auto checked = check_nodes(topology); !checked) return checked;
  std::vector<End> ends;
  ends.reserve(topology.cables.size() * 2);
  for (const auto& cable : topology.cables) {
    for (const auto& end : {cable.a, cable.b}) {
      if (auto checked = check_end(topology, end); !checked) return checked;
      ends.push_back(end);
    }
    if (!is_one_of(cable.width, kMostWidth) || !is_one_of(cable.speed, kMostSpeed) ||
        (cable.extended_speed != 0 && !is_one_of(cable.extended_speed, kMostExtendedSpeed))) {
      return invalid("a cable of " + quoted(name_of(topology, cable.a)) +
                     " has a width or speed that is not one bit of its attribute");
    }
  }
  std::ranges::sort(ends);
  const auto twice = std::ranges::adjacent_find(ends);
  if (twice == ends.end()) return {};
  return invalid("port " + std::to_string(twice->port) + " of " +
                 quoted(name_of(topology, *twice)) + " has two cables");
}

Topology canonical(Topology topology) {
  for (auto& each : topology.switches) {
    if (each.description == each.name) each.description.clear();
  }
  for (auto& each : topology.hcas) {
    if (each.description == each.name) each.description.clear();
    for (unsigned port = 1; port <= kMaxHcaPorts; ++port) {
      Guid& guid = each.port_guids[port - 1];
      if (guid == following_guid(each.guid, port)) guid = Guid();
    }
  }
  for (auto& cable : topology.cables) {
    if (cable.b < cable.a) std::swap(cable.a, cable.b);
  }
  std::ranges::sort(topology.cables, {},
                    [](const Cable& cable) { return std::pair(cable.a, cable.b); });
  return topology;
}

const std::string& name_of(const Topology& topology, const End& end) {
  return end.is_switch ? topology.switches[end.index].name : topology.hcas[end.index].name;
}

}  // namespace softib::topology
