#include "softib/subnet/switches.hpp"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

namespace softib::subnet {

namespace {

/// What NodeInfo shows of the switch of a subnet without a topology, unless it has more nodes.
constexpr SwitchPort kUsualPorts = 36;

ExternalPort connected_to(const topology::End& end, const topology::Cable& cable,
                          std::uint8_t mtu) {
  ExternalPort port;
  port.peer = {Peer::Kind::switch_port, end.index, end.port, PortState::init};
  port.width = cable.width;
  port.speed = cable.speed;
  port.mtu = mtu;
  return port;
}

}  // namespace

Switches::Switches(const SubnetConfig& config) : has_topology_(config.topology.has_value()) {
  if (!has_topology_) {
    Switch& only = all_.emplace_back();
    only.node.name = kSwitchName;
    only.node.switch_index = SwitchIndex{0};
    only.node.lanes = LaneTables(kMaxNumberedPort);
    only.port_count = kUsualPorts;
    only.ports.resize(kMaxSwitchPort + 1);
    return;
  }
  const auto& topology = *config.topology;
  for (const auto& described : topology.switches) {
    Switch& added = all_.emplace_back();
    added.node.name = described.name;
    added.node.port.node_guid = described.guid;
    added.node.switch_index = static_cast<SwitchIndex>(all_.size() - 1);
    added.traps = SwitchTraps(*added.node.switch_index);
    added.node.description = described.description;
    added.node.lanes = LaneTables(described.ports);
    added.port_count = described.ports;
    added.ports.resize(described.ports + std::size_t{1});
  }
  for (const auto& cable : topology.cables) {
    if (cable.a.is_switch && cable.b.is_switch) {
      all_[cable.a.index].ports[cable.a.port] = connected_to(cable.b, cable, config.mtu);
      all_[cable.b.index].ports[cable.b.port] = connected_to(cable.a, cable, config.mtu);
    } else if (cable.a.is_switch != cable.b.is_switch) {
      const auto& [at, end] =
          cable.a.is_switch ? std::tie(cable.a, cable.b) : std::tie(cable.b, cable.a);
      const auto& hca = topology.hcas[end.index];
      places_.try_emplace(hca.name, Place{{at.index, at.port}, &hca, end.port, &cable});
    }
  }
}

const Switches::Place* Switches::place_of(std::string_view hca) const {
  const auto found = places_.find(hca);
  return found == places_.end() ? nullptr : &found->second;
}

std::optional<Attachment> Switches::port_for(std::string_view hca, NodeIndex node) {
  if (!has_topology_) {
    // Every node has its port, so that it is where it was when it is added again.
    return Attachment{0, static_cast<SwitchPort>(node + 1)};
  }
  if (const auto* const place = place_of(hca)) return place->at;
  for (SwitchIndex i = 0; i < size(); ++i) {
    const auto& ports = all_[i].ports;
    for (SwitchPort port = 1; port <= all_[i].last_port(); ++port) {
      const Attachment at{i, port};
      const bool is_reserved =
          std::ranges::any_of(places_, [&](const auto& entry) { return entry.second.at == at; });
      if (ports[port].peer.kind == Peer::Kind::none && !is_reserved) return at;
    }
  }
  if (hca != kSmName) return std::nullopt;
  const auto smallest = std::ranges::min_element(all_, {}, &Switch::port_count);
  smallest->ports.emplace_back();
  return Attachment{*smallest->node.switch_index, ++smallest->port_count};
}

bool Switches::is_free(const Attachment& at) const {
  return at.switch_index < size() && at.port != 0 && at.port < all_[at.switch_index].ports.size() &&
         peer(at.switch_index, at.port).kind == Peer::Kind::none;
}

void Switches::connect(const Attachment& at, NodeIndex node) {
  assert(is_free(at));
  Switch& to = (*this)[at.switch_index];
  to.ports[at.port].peer = {Peer::Kind::node, node, 0, PortState::down};
  to.port_count = std::max(to.port_count, std::min(at.port, kMaxNumberedPort));
  to.has_changed = true;
}

void Switches::disconnect(const Attachment& at) {
  Switch& from = (*this)[at.switch_index];
  from.ports[at.port].peer = {};
  from.has_changed = true;
}

bool Switches::set_cable(SwitchIndex index, SwitchPort port, PortState state) {
  Switch& own = (*this)[index];
  Peer& here = own.ports[port].peer;
  assert(here.kind == Peer::Kind::switch_port);
  if (here.state == state) return false;
  Switch& other = (*this)[here.index];
  here.state = other.ports[here.port].peer.state = state;
  own.has_changed = other.has_changed = true;
  return true;
}

void Switches::set_cable_mtu(SwitchIndex index, SwitchPort port, std::uint8_t mtu) {
  ExternalPort& here = all_[index].ports[port];
  assert(here.peer.kind == Peer::Kind::switch_port);
  here.mtu = all_[here.peer.index].ports[here.peer.port].mtu = mtu;
}

/// Continues with the state that an earlier process has published. All of it is published again.
void Switches::adopt(const std::vector<SubnetSnapshot::SwitchEntry>& before, bool with_tables) {
  for (SwitchIndex i = 0; i < size(); ++i) {
    Switch& own = (*this)[i];
    if (i < before.size() && before[i].node.name == own.node.name) {
      const auto& known = before[i];
      own.node.port = known.node.port;
      for (SwitchPort port = 1; port <= own.last_port() && port < known.cables.size(); ++port) {
        Peer& peer = own.ports[port].peer;
        if (peer.kind != Peer::Kind::switch_port) continue;
        peer.state = known.cables[port];
        own.ports[port].is_plugged_in = peer.state != PortState::down;
      }
      if (with_tables) {
        own.routes = known.routes;
        own.groups = known.groups;
      }
    }
    own.has_changed = true;
    own.routes.mark_all_changed();
    own.groups.mark_all_changed();
  }
}

std::optional<SwitchIndex> Switches::find(std::string_view name) const {
  for (SwitchIndex i = 0; i < size(); ++i) {
    if (all_[i].node.name == name) return i;
  }
  return std::nullopt;
}

const Switch* Switches::find(Guid guid) const {
  const auto found = std::ranges::find_if(
      all_, [&](const Switch& each) { return each.node.port.port_guid == guid; });
  return found == all_.end() ? nullptr : &*found;
}

std::vector<SwitchChanges> Switches::take_changes() {
  std::vector<SwitchChanges> changes;
  const auto looked_at = std::exchange(may_have_changed_, {});
  for (auto i = looked_at._Find_first(); i < looked_at.size(); i = looked_at._Find_next(i)) {
    Switch& each = all_[i];
    if (!each.has_changed && !each.routes.has_changed() && !each.groups.has_changed()) continue;
    changes.push_back({static_cast<SwitchIndex>(i), std::exchange(each.has_changed, false),
                       each.routes.take_changed(), each.groups.take_changed()});
  }
  return changes;
}

}  // namespace softib::subnet
