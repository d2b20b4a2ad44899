#include "softib/subnet/routing.hpp"

#include <algorithm>

namespace softib::subnet {

void Routing::find_ways() {
  const Switches& switches = switches_;
  ways_.assign(switches.size(), {});
  for (SwitchIndex i = 0; i < switches.size(); ++i) {
    for (SwitchPort port = 1; port <= switches[i].last_port(); ++port) {
      const Peer& peer = switches[i].ports[port].peer;
      const bool is_up = peer.kind == Peer::Kind::switch_port && carries(peer.state, false);
      if (is_up) ways_[i].push_back({port, peer.index, peer.port});
    }
  }
}

void Routing::cables_changed() {
  find_ways();
  hops_.assign(std::size_t{switches_.size()} * switches_.size(), kUnreachable);
  for (SwitchIndex i = 0; i < switches_.size(); ++i) measure(i);
  choose_tree();
}

/// Breadth first from one switch.
void Routing::measure(SwitchIndex from) {
  std::vector<SwitchIndex> reached{from};
  hops(from, from) = 0;
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const SwitchIndex at = reached[next];
    for (const Way& way : ways_[at]) {
      if (hops(from, way.to) != kUnreachable) continue;
      hops(from, way.to) = static_cast<std::uint16_t>(hops(from, at) + 1);
      reached.push_back(way.to);
    }
  }
}

/// The root of a part is the switch from which the farthest one is nearest.
void Routing::choose_tree() {
  const SwitchIndex size = switches_.size();
  std::vector<std::uint16_t> farthest(size, 0);
  for (SwitchIndex from = 0; from < size; ++from) {
    for (SwitchIndex to = 0; to < size; ++to) {
      if (hops(from, to) != kUnreachable) farthest[from] = std::max(farthest[from], hops(from, to));
    }
  }
  std::vector<SwitchIndex> roots(size);
  for (SwitchIndex i = 0; i < size; ++i) roots[i] = i;
  std::ranges::stable_sort(roots, {}, [&](SwitchIndex i) { return farthest[i]; });
  to_parent_.assign(size, 0);
  tree_order_.clear();
  std::vector<bool> is_reached(size);
  for (const SwitchIndex root : roots) {
    if (is_reached[root]) continue;
    is_reached[root] = true;
    tree_order_.push_back(root);
    for (std::size_t next = tree_order_.size() - 1; next < tree_order_.size(); ++next) {
      for (const Way& way : ways_[tree_order_[next]]) {
        if (is_reached[way.to]) continue;
        is_reached[way.to] = true;
        to_parent_[way.to] = way.to_port;
        tree_order_.push_back(way.to);
      }
    }
  }
}

const std::vector<SwitchPort>& Routing::exits(SwitchIndex from, SwitchIndex to) {
  exits_.clear();
  const auto left = hops(to, from);  // as many as back, and one row of the table for one `to`
  if (left == kUnreachable) return exits_;
  for (const Way& way : ways_[from]) {
    if (hops(to, way.to) + 1 == left) exits_.push_back(way.port);
  }
  return exits_;
}

void Routing::set_routes(SwitchIndex to, const std::vector<Destination>& destinations) {
  for (SwitchIndex at = 0; at < switches_.size(); ++at) {
    LinearForwardingTable& routes = switches_[at].routes;
    if (at == to) {
      for (const auto& each : destinations) routes.set(each.lid, each.port);
      continue;
    }
    const auto& all = exits(at, to);
    // Switches that follow each other choose by different digits of the LID, so that those of a
    // higher level use all of their exits, too.
    const bool is_even = hops(to, at) % 2 == 0;
    for (const auto& each : destinations) {
      std::optional<SwitchPort> exit;
      const std::size_t lid = each.lid.value();
      if (!all.empty()) exit = all[(is_even ? lid : lid / all.size()) % all.size()];
      routes.set(each.lid, exit);
    }
  }
}

void Routing::clear_route(Lid lid) {
  for (SwitchIndex at = 0; at < switches_.size(); ++at) {
    switches_[at].routes.set(lid, std::nullopt);
  }
}

void Routing::set_group(std::size_t group, const std::vector<Attachment>& receivers) {
  const SwitchIndex size = switches_.size();
  std::vector<PortSet> exits(size);
  std::vector<std::size_t> below(size);  // receivers at the switch and below it in the tree
  for (const auto& to : receivers) {
    exits[to.switch_index].set(to.port - std::size_t{1});
    ++below[to.switch_index];
  }
  // From the leaves to the roots: towards the children that have receivers.
  for (auto at = tree_order_.rbegin(); at != tree_order_.rend(); ++at) {
    if (to_parent_[*at] == 0) continue;
    const Peer parent = switches_.peer(*at, to_parent_[*at]);
    below[parent.index] += below[*at];
    if (below[*at] != 0) exits[parent.index].set(parent.port - std::size_t{1});
  }
  // From the roots to the leaves: towards the parent, if there are receivers elsewhere.
  std::vector<std::size_t> in_part(size);
  for (const SwitchIndex at : tree_order_) {
    if (to_parent_[at] == 0) {
      in_part[at] = below[at];
      continue;
    }
    in_part[at] = in_part[switches_.peer(at, to_parent_[at]).index];
    if (in_part[at] > below[at]) exits[at].set(to_parent_[at] - std::size_t{1});
  }
  for (SwitchIndex at = 0; at < size; ++at) switches_[at].groups.set(group, exits[at]);
}

}  // namespace softib::subnet
