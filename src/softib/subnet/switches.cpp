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
      places_[hca.name].push_back({{at.index, at.port}, &hca, end.port, &cable});
    }
  }
  for (auto& [name, places] : places_) std::ranges::sort(places, {}, &Place::port);
}

std::span<const Switches::Place> Switches::places_of(std::string_view hca) const {
  const auto found = places_.find(hca);
  if (found == places_.end()) return {};
  return found->second;
}

std::optional<Attachment> Switches::port_for(std::string_view hca, NodeIndex node) {
  if (!has_topology_) {
    // Every node has its port, so that it is where it was when it is added again.
    return Attachment{0, static_cast<SwitchPort>(node + 1)};
  }
  for (SwitchIndex i = 0; i < size(); ++i) {
    const auto& ports = all_[i].ports;
    for (SwitchPort port = 1; port <= all_[i].last_port(); ++port) {
      const Attachment at{i, port};
      const bool is_reserved = std::ranges::any_of(places_, [&](const auto& entry) {
        return std::ranges::count(entry.second, at, &Place::at) != 0;
      });
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

void Switches::connect(const Attachment& at, NodeIndex node, const HcaPort& hca) {
  assert(is_free(at));
  Switch& to = (*this)[at.switch_index];
  to.ports[at.port].peer = {Peer::Kind::node, node,      hca.number,
                            PortState::down,  kNoChecks, hca.hca};
  update_checks(at);
  to.port_count = std::max(to.port_count, std::min(at.port, kMaxNumberedPort));
  to.has_changed = true;
}

void Switches::set_hca(const Attachment& at, NodeIndex hca) {
  Peer& peer = port(at).peer;
  assert(peer.kind == Peer::Kind::node);
  peer.hca = hca;
  (*this)[at.switch_index].has_changed = true;
}

void Switches::disconnect(const Attachment& at) {
  Switch& from = (*this)[at.switch_index];
  from.ports[at.port].peer = {};
  from.has_changed = true;
}

bool Switches::can_be_up(const Attachment& at) const {
  const auto end_can = [&](const Attachment& end) {
    const Switch& here = all_[end.switch_index];
    return here.ports[end.port].is_plugged_in && here.node.port.state != PortState::down;
  };
  const Peer other = peer(at.switch_index, at.port);
  return end_can(at) &&
         (other.kind != Peer::Kind::switch_port || end_can({other.index, other.port}));
}

void Switches::set_cable(SwitchIndex index, SwitchPort port, PortState state) {
  Switch& own = (*this)[index];
  Peer& here = own.ports[port].peer;
  assert(here.kind == Peer::Kind::switch_port);
  Switch& other = (*this)[here.index];
  count_change({index, port}, here.state, state);
  count_change({here.index, here.port}, here.state, state);
  here.state = other.ports[here.port].peer.state = state;
  own.has_changed = other.has_changed = true;
}

/// A link goes down, too, before it is trained again.
void Switches::count_change(const Attachment& at, PortState before, PortState now) {
  const bool is_lost = now == PortState::down || (now == PortState::init && before > now);
  if (before == PortState::down || !is_lost) return;
  ++port(at).links_lost;
  (*this)[at.switch_index].has_changed = true;
}

void Switches::set_cable_mtu(SwitchIndex index, SwitchPort port, std::uint8_t mtu) {
  ExternalPort& here = all_[index].ports[port];
  assert(here.peer.kind == Peer::Kind::switch_port);
  here.mtu = all_[here.peer.index].ports[here.peer.port].mtu = mtu;
}

void Switches::set_filter(const Attachment& at, const PartitionFilter& filter) {
  port(at).filter = filter;
  note_filter(at);
  update_checks(at);
}

void Switches::set_faults(const Attachment& at, const CableFaults& faults) {
  ExternalPort& here = port(at);
  here.faults = faults;
  note_loss(at);
  if (here.peer.kind == Peer::Kind::switch_port) {
    const Attachment there{here.peer.index, here.peer.port};
    port(there).faults = faults;
    note_loss(there);
  }
  update_checks(at);
}

void Switches::note_filter(const Attachment& at) {
  const auto& filter = port(at).filter;
  if (filter.inbound || filter.outbound) {
    filters_.insert(at);
  } else {
    filters_.erase(at);
  }
}

void Switches::note_loss(const Attachment& at) {
  if (port(at).faults.loss != 0) {
    lossy_.insert(at);
  } else {
    lossy_.erase(at);
  }
}

CheckSet Switches::entry_checks(const Attachment& at) const {
  const ExternalPort& entry = all_[at.switch_index].ports[at.port];
  CheckSet checks = entry.faults.any() ? kCableFault : kNoChecks;
  if (entry.filter.inbound) checks |= kPKeyCheck;
  return checks;
}

CheckSet Switches::checks() const {
  CheckSet all = kNoChecks;
  for (SwitchIndex i = 0; i < size(); ++i) {
    for (SwitchPort number = 1; number <= all_[i].last_port(); ++number) {
      all |= entry_checks({i, number});
      all |= all_[i].ports[number].peer.checks;
    }
  }
  return all;
}

void Switches::update_checks(const Attachment& at) {
  update_exit_checks(at);
  const Peer& peer = port(at).peer;
  if (peer.kind == Peer::Kind::switch_port) update_exit_checks({peer.index, peer.port});
}

void Switches::update_exit_checks(const Attachment& at) {
  ExternalPort& exit = port(at);
  Peer& peer = exit.peer;
  peer.checks = exit.faults.any() ? kCableFault : kNoChecks;
  if (peer.kind == Peer::Kind::switch_port) peer.checks |= entry_checks({peer.index, peer.port});
  if (exit.filter.outbound) peer.checks |= kPKeyCheck;
  (*this)[at.switch_index].has_changed = true;
}

/// Continues with the state that an earlier process has published. All of it is published again.
void Switches::adopt(const std::vector<SubnetSnapshot::SwitchEntry>& before, bool with_tables) {
  for (SwitchIndex i = 0; i < size(); ++i) {
    Switch& own = (*this)[i];
    if (i < before.size() && before[i].node.name == own.node.name) {
      const auto& known = before[i];
      own.node.port = known.node.port;
      for (SwitchPort number = 1; number <= own.last_port() && number < known.ports.size();
           ++number) {
        ExternalPort adopted = known.ports[number];
        const ExternalPort& fresh = own.ports[number];
        adopted.peer = fresh.peer;
        if (fresh.peer.kind == Peer::Kind::switch_port) {
          adopted.peer.state = known.ports[number].peer.state;
        }
        if (!with_tables) {
          adopted.filter = {};
          adopted.mtu = fresh.mtu;
        }
        own.ports[number] = adopted;
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
  for (SwitchIndex i = 0; i < size(); ++i) {
    for (SwitchPort number = 1; number <= all_[i].last_port(); ++number) {
      note_filter({i, number});
      note_loss({i, number});
      update_exit_checks({i, number});
    }
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
