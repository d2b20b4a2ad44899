// The way of a packet through the switches, by their tables. The same rules hold for the tables of
// the subnet process and for those in shared memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "softib/subnet/forwarding_tables.hpp"
#include "softib/subnet/port_checks.hpp"

namespace softib::subnet {

/// Bound of the switches that a unicast packet passes: loops in the tables end there.
inline constexpr unsigned kMaxSwitchHops = 64;
/// Bound of the copies of a multicast packet on cables between switches.
inline constexpr unsigned kMaxSwitchCopies = 4096;

/// What is at the other end of the cable of a switch's port.
struct Peer {
  enum class Kind : std::uint8_t { none, node, switch_port };
  Kind kind = Kind::none;
  std::uint16_t index = 0;            ///< of the node or the switch
  SwitchPort port = 0;                ///< of the switch, or of the HCA that the node is a port of
  PortState state = PortState::down;  ///< of a cable between switches; a node has its own
  CheckSet checks = kNoChecks;        ///< of packets that leave through the port
  NodeIndex hca = 0;                  ///< of a node: that of the HCA's first port
  friend bool operator==(const Peer&, const Peer&) = default;
};

enum class RouteEnd : std::uint8_t {
  node,      ///< arrived at a node
  switch_,   ///< arrived at port 0 of a switch
  no_entry,  ///< a table has no entry for the LID, or names a port without a cable
  link_down,
  loop,
  dropped  ///< by the caller
};

/// Where processes get what arrives at a node.
struct HcaPort {
  NodeIndex hca = kSubnetNode;  ///< the node of the HCA's first port, to which their slots belong
  std::uint8_t number = 1;      ///< of the port
};

struct Route {
  RouteEnd end = RouteEnd::no_entry;
  std::uint16_t index = 0;      ///< of the node, or of the switch at which the packet ended
  Attachment last{};            ///< the last switch, and the port through which it left that
  unsigned cables = 0;          ///< between switches, that the packet took
  CheckSet checks = kNoChecks;  ///< of all ports on the way
  HcaPort to{};                 ///< if it has arrived at a node
};

/// Whether a cable in this state carries a packet (IBA 7.2.7).
[[nodiscard]] constexpr bool carries(PortState state, bool subnet_management) {
  return subnet_management ? state != PortState::down : state == PortState::active;
}

/// Follows a unicast packet from switch `at`. `tables` has
///   std::optional<SwitchPort> exit(SwitchIndex, Lid)
///   Peer peer(SwitchIndex, SwitchPort)
/// and `take(switch, exit, peer)` is called for each cable that the packet is to take, also the one
/// to the node; it returns whether the packet gets to the other end.
template <class Tables, class Take>
[[nodiscard]] Route follow_while(const Tables& tables, SwitchIndex at, Lid dlid,
                                 bool subnet_management, Take&& take) {
  CheckSet checks = kNoChecks;
  for (unsigned hop = 0; hop < kMaxSwitchHops; ++hop) {
    const auto exit = tables.exit(at, dlid);
    if (!exit) return {RouteEnd::no_entry, at, {at, 0}, hop, checks};
    if (*exit == 0) return {RouteEnd::switch_, at, {at, 0}, hop, checks};
    const Peer peer = tables.peer(at, *exit);
    const Attachment last{at, *exit};
    if (peer.kind == Peer::Kind::none) return {RouteEnd::no_entry, at, last, hop, checks};
    checks |= peer.checks;
    const bool is_node = peer.kind == Peer::Kind::node;
    if (!is_node && !carries(peer.state, subnet_management)) {
      return {RouteEnd::link_down, at, last, hop, checks};
    }
    if (!take(at, *exit, peer)) return {RouteEnd::dropped, at, last, hop, checks};
    if (is_node) {
      const HcaPort to{peer.hca, static_cast<std::uint8_t>(peer.port)};
      return {RouteEnd::node, peer.index, last, hop, checks, to};
    }
    at = peer.index;
  }
  return {RouteEnd::loop, at, {at, 0}, kMaxSwitchHops, checks};
}

/// The same, and `on_cable(switch, exit)` is called for each cable between switches.
template <class Tables, class OnCable>
[[nodiscard]] Route follow(const Tables& tables, SwitchIndex at, Lid dlid, bool subnet_management,
                           OnCable&& on_cable) {
  return follow_while(tables, at, dlid, subnet_management,
                      [&](SwitchIndex from, SwitchPort exit, const Peer& peer) {
                        if (peer.kind == Peer::Kind::switch_port) on_cable(from, exit);
                        return true;
                      });
}

template <class Tables>
[[nodiscard]] Route follow(const Tables& tables, SwitchIndex at, Lid dlid, bool subnet_management) {
  return follow_while(tables, at, dlid, subnet_management,
                      [](SwitchIndex, SwitchPort, const Peer&) { return true; });
}

/// Follows a multicast packet of a node at switch `at`. `tables` also has
///   void for_each_exit(SwitchIndex, std::size_t group, visit(SwitchPort))
/// `take(switch, exit, peer, delay)` is called for each cable that a copy is to take; it returns
/// the delay of the copy at the other end, to which `delay` counts, or nullopt if it is lost.
/// `arrive(node, delay)` is called for each copy that arrives. Returns false if the copies would
/// not have ended.
template <class Tables, class Take, class Arrive>
[[nodiscard]] bool spread_while(const Tables& tables, SwitchIndex at, std::size_t group,
                                Take&& take, Arrive&& arrive) {
  struct Copy {
    SwitchIndex at;
    SwitchPort entry;  ///< 0: from the sender, to whose HCA the copy for itself belongs
    std::uint32_t delay;
  };
  std::array<Copy, kMaxSwitchCopies> copies;  // not initialised: most packets use one or a few
  copies[0] = {at, 0, 0};
  std::size_t count = 1;
  bool has_looped = false;
  for (std::size_t next = 0; next < count; ++next) {
    const Copy copy = copies[next];
    tables.for_each_exit(copy.at, group, [&](SwitchPort exit) {
      if (exit == copy.entry) return;
      const Peer peer = tables.peer(copy.at, exit);
      const bool is_node = peer.kind == Peer::Kind::node;
      const bool is_cable = peer.kind == Peer::Kind::switch_port && carries(peer.state, false);
      if (!is_node && !is_cable) return;
      if (is_cable) {
        has_looped = has_looped || count == copies.size();
        if (has_looped) return;
      }
      const std::optional<std::uint32_t> delay = take(copy.at, exit, peer, copy.delay);
      if (!delay) return;
      if (is_node) {
        arrive(static_cast<NodeIndex>(peer.index), *delay);
      } else {
        copies[count++] = {peer.index, peer.port, *delay};
      }
    });
  }
  return !has_looped;
}

/// The same without delays: returns the nodes that get the packet, at most once each.
/// `on_cable(switch, exit)` is called for each cable between switches, and `has_looped` is set if
/// the copies would not have ended.
template <class Tables, class OnCable>
[[nodiscard]] NodeSet spread(const Tables& tables, SwitchIndex at, std::size_t group,
                             bool& has_looped, OnCable&& on_cable) {
  NodeSet nodes;
  has_looped = !spread_while(
      tables, at, group,
      [&](SwitchIndex from, SwitchPort exit, const Peer& peer, std::uint32_t delay) {
        if (peer.kind == Peer::Kind::switch_port) on_cable(from, exit);
        return std::optional(delay);
      },
      [&](NodeIndex node, std::uint32_t) { nodes.set(node); });
  return nodes;
}

/// The nodes to whose port a switch forwards a multicast LID, if a packet gets to that switch.
template <class Tables>
[[nodiscard]] NodeSet all_receivers(const Tables& tables, std::size_t group) {
  NodeSet nodes;
  for (SwitchIndex at = 0; at < tables.size(); ++at) {
    tables.for_each_exit(at, group, [&](SwitchPort exit) {
      const Peer peer = tables.peer(at, exit);
      if (peer.kind == Peer::Kind::node) nodes.set(peer.index);
    });
  }
  return nodes;
}

}  // namespace softib::subnet
