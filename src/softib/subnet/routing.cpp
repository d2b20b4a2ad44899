#include "softib/subnet/routing.hpp"

#include <algorithm>

namespace softib::subnet {

namespace {

/// Calls `visit(port, peer)` for each cable of a switch that carries packets to another switch.
template <class Visit>
void for_each_neighbour(const Switch& from, Visit visit) {
  for (SwitchPort port = 1; port <= from.last_port(); ++port) {
    const Peer& peer = from.ports[port].peer;
    const bool is_up = peer.kind == Peer::Kind::switch_port && carries(peer.state, false);
    if (is_up) visit(port, peer);
  }
}

}  // namespace

void Routing::cables_changed() {
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
    for_each_neighbour(switches_[at], [&](SwitchPort, const Peer& peer) {
      if (hops(from, peer.index) != kUnreachable) return;
      hops(from, peer.index) = static_cast<std::uint16_t>(hops(from, at) + 1);
      reached.push_back(peer.index);
    });
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
      for_each_neighbour(switches_[tree_order_[next]], [&](SwitchPort, const Peer& peer) {
        if (is_reached[peer.index]) return;
        is_reached[peer.index] = true;
        to_parent_[peer.index] = peer.port;
        tree_order_.push_back(peer.index);
      });
    }
  }
}

const std::vector<SwitchPort>& Routing::exits(SwitchIndex from, SwitchIndex to) {
  exits_.clear();
  const auto left = hops(from, to);
  if (left == kUnreachable) return exits_;
  for_each_neighbour(switches_[from], [&](SwitchPort port, const Peer& peer) {
    if (hops(peer.index, to) + 1 == left) exits_.push_back(port);
  });
  return exits_;
}

void Routing::set_route(Lid lid, const Attachment& to) {
  for (SwitchIndex at = 0; at < switches_.size(); ++at) {
    std::optional<SwitchPort> exit;
    if (at == to.switch_index) {
      exit = to.port;
    } else if (const auto& all = exits(at, to.switch_index); !all.empty()) {
      // Switches that follow each other choose by different digits of the LID, so that those of a
      // higher level use all of their exits, too.
      const bool is_even = hops(at, to.switch_index) % 2 == 0;
      exit = all[(is_even ? lid.value() : lid.value() / all.size()) % all.size()];
    }
    switches_[at].routes.set(lid, exit);
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
