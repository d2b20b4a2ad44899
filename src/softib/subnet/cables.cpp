#include "softib/subnet/cables.hpp"

#include <cerrno>
#include <string>
#include <utility>

namespace softib::subnet {

using ipoib::Error;
using ipoib::Result;

/// The ports of switches whose cable has the ends `from` and `to`.
std::vector<Attachment> Cables::find(const CableEnd& from,
                                     const std::optional<CableEnd>& to) const {
  const Switches& switches = std::as_const(manager_).switches();
  const auto is_node = [&](const Peer& peer, const CableEnd& end) {
    const Node* const node = peer.kind == Peer::Kind::node ? manager_.node(peer.index) : nullptr;
    return node != nullptr && node->name == end.name &&
           (end.port == 0 || end.port == node->port.number);
  };
  const auto is_port = [&](SwitchIndex at, SwitchPort port, const CableEnd& end) {
    return switches[at].node.name == end.name && (end.port == 0 || end.port == port);
  };
  std::vector<Attachment> found;
  for (SwitchIndex at = 0; at < switches.size(); ++at) {
    for (SwitchPort port = 1; port <= switches[at].last_port(); ++port) {
      const Peer peer = switches.peer(at, port);
      if (peer.kind == Peer::Kind::none) continue;
      const auto is_other = [&](const CableEnd& end) {
        return peer.kind == Peer::Kind::switch_port ? is_port(peer.index, peer.port, end)
                                                    : is_node(peer, end);
      };
      const bool is_of_node = is_node(peer, from) && (!to || is_port(at, port, *to));
      const bool is_of_switch = is_port(at, port, from) && (!to || is_other(*to));
      if (is_of_node || is_of_switch) found.push_back({at, port});
    }
  }
  return found;
}

Result<Attachment> Cables::find_one(const CableEnd& from, const std::optional<CableEnd>& to) const {
  const auto found = find(from, to);
  if (found.size() == 1) return found[0];
  const auto text = [](const CableEnd& end) {
    return end.port == 0 ? end.name : end.name + '[' + std::to_string(end.port) + ']';
  };
  const std::string which = text(from) + (to ? " to " + text(*to) : "");
  if (found.empty()) return Error{ENOENT, "there is no cable of " + which};
  // The port of `from`, which may be that of an HCA at the other end.
  const Peer peer = std::as_const(manager_).switches().peer(found[0].switch_index, found[0].port);
  const Node* const node = peer.kind == Peer::Kind::node ? manager_.node(peer.index) : nullptr;
  const unsigned port =
      node != nullptr && node->name == from.name ? node->port.number : found[0].port;
  return Error{EINVAL, std::to_string(found.size()) + " cables are of " + which +
                           ": name the port, as in " + from.name + '[' + std::to_string(port) +
                           ']'};
}

Result<void> Cables::set(const CableEnd& from, const std::optional<CableEnd>& to,
                         CableState state) {
  const auto at = find_one(from, to);
  if (!at) return at.error();
  if (state == CableState::stall) return stall(*at);
  if (state == CableState::flap) {
    auto done = retrain(*at);
    if (port(*at).peer.kind == Peer::Kind::switch_port) observer_.ways_changed();
    return done;
  }
  port(*at).is_plugged_in = state == CableState::up;
  manager_.switches()[at->switch_index].has_changed = true;
  auto done = update_link(*at);
  if (port(*at).peer.kind == Peer::Kind::switch_port) observer_.ways_changed();
  return done;
}

Result<void> Cables::set(const CableEnd& from, const std::optional<CableEnd>& to,
                         const CableSettings& settings) {
  const auto at = find_one(from, to);
  if (!at) return at.error();
  if (settings.overruns) {
    if (auto done = overrun(*at, *settings.overruns); !done) return done;
  }
  CableFaults faults = port(*at).faults;
  faults.loss = settings.loss.value_or(faults.loss);
  faults.delay = settings.delay.value_or(faults.delay);
  if (faults != port(*at).faults) {
    manager_.switches().set_faults(*at, faults);
    manager_.checks_changed(*at);
  }
  if (!manager_.set_link(*at, settings.width, settings.speed)) return {};
  auto done = retrain(*at);
  if (port(*at).peer.kind == Peer::Kind::switch_port) observer_.ways_changed();
  return done;
}

Result<void> Cables::set_switch(std::string_view name, SwitchState state) {
  Switches& switches = manager_.switches();
  const auto index = switches.find(name);
  if (!index) return Error{ENOENT, "there is no switch '" + std::string(name) + "'"};
  Switch& at = switches[*index];
  const auto set_present = [&](bool present) -> Result<void> {
    if ((at.node.port.state != PortState::down) == present) return {};
    manager_.set_present(*index, present);
    for (SwitchPort number = 1; number <= at.last_port(); ++number) {
      if (at.ports[number].peer.kind == Peer::Kind::none) continue;
      if (auto done = update_link({*index, number}); !done) return done;
    }
    observer_.ways_changed();
    return {};
  };
  if (state != SwitchState::present) {
    if (auto done = set_present(false); !done) return done;
  }
  return state == SwitchState::absent ? Result<void>() : set_present(true);
}

Result<void> Cables::set_port(NodeIndex node, PortState state) {
  const Node* const found = manager_.node(node);
  if (found == nullptr) return set_node_state(node, state);
  ExternalPort& at = port(found->attachment);
  const bool was_plugged_in = std::exchange(at.is_plugged_in, state != PortState::down);
  const auto index = found->attachment.switch_index;
  if (state != PortState::down && !manager_.switches().can_be_up(found->attachment)) {
    at.is_plugged_in = was_plugged_in;
    const std::string name = manager_.switches()[index].node.name;
    return Error{EHOSTDOWN, "the switch of the HCA '" + found->name +
                                "' is absent: softib set switch " + name + " present"};
  }
  auto done = set_node_state(node, state);
  if (done) {
    manager_.switches()[index].has_changed = true;
  } else {
    at.is_plugged_in = was_plugged_in;
  }
  return done;
}

void Cables::check_port(NodeIndex node) {
  const Node* const found = manager_.node(node);
  if (found == nullptr || manager_.switches().can_be_up(found->attachment)) return;
  (void)set_node_state(node, PortState::down);
}

/// The ports of switches at the ends of a link that is up.
Result<std::vector<Attachment>> Cables::ends_of_link(const Attachment& at) {
  const Peer peer = port(at).peer;
  const bool is_node = peer.kind == Peer::Kind::node;
  const PortState state = is_node ? manager_.node(peer.index)->port.state : peer.state;
  if (state == PortState::down)
    return Error{EHOSTDOWN, "the link of the cable is down: set the cable up before"};
  std::vector<Attachment> ends{at};
  if (!is_node) ends.push_back({peer.index, peer.port});
  return ends;
}

Result<void> Cables::stall(const Attachment& at) {
  const auto ends = ends_of_link(at);
  if (!ends) return ends.error();
  for (const Attachment& end : *ends) observer_.link_failed(end, LinkError::watchdog);
  return {};
}

Result<void> Cables::overrun(const Attachment& at, std::uint16_t periods) {
  const auto ends = ends_of_link(at);
  if (!ends) return ends.error();
  for (const Attachment& end : *ends) {
    if (periods <= port(end).tuning.overrun_errors) continue;
    observer_.link_failed(end, LinkError::overrun);
  }
  return {};
}

/// Takes a link down and up again, if it can be up.
Result<void> Cables::retrain(const Attachment& at) {
  ExternalPort& here = port(at);
  const bool was_plugged_in = std::exchange(here.is_plugged_in, false);
  auto done = update_link(at);
  here.is_plugged_in = was_plugged_in;
  return done ? update_link(at) : done;
}

/// Lets a cable come up if it is plugged in and both ends are there, else go down. The caller
/// reports changed ways.
Result<void> Cables::update_link(const Attachment& at) {
  Switches& switches = manager_.switches();
  const Peer peer = port(at).peer;
  const bool is_up = switches.can_be_up(at);
  if (peer.kind == Peer::Kind::node) {
    const PortAttributes& node = manager_.node(peer.index)->port;
    const bool is_known = node.failed || (node.state != PortState::down) == is_up;
    return is_known ? Result<void>()
                    : set_node_state(peer.index, is_up ? PortState::active : PortState::down);
  }
  if ((peer.state != PortState::down) == is_up) return {};
  switches.set_cable(at.switch_index, at.port, is_up ? manager_.link_up_state() : PortState::down);
  observer_.link_changed(at.switch_index);
  observer_.link_changed(peer.index);
  return {};
}

/// With an external SM, only the link comes up; that SM does the rest.
Result<void> Cables::set_node_state(NodeIndex node, PortState state) {
  const Node* const found = manager_.node(node);
  const PortState before = found != nullptr ? found->port.state : state;
  if (!manager_.has_own_sm() && state == PortState::active) {
    state = before == PortState::down ? PortState::init : before;
  }
  auto set = manager_.set_port_state(node, state);
  if (set) observer_.node_changed(node, before);
  return set;
}

}  // namespace softib::subnet
