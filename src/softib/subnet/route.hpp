// The way of a packet through the switches, by their tables. The same rules hold for the tables of
// the subnet process and for those in shared memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "softib/subnet/forwarding_tables.hpp"

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
  SwitchPort port = 0;                ///< of the switch
  PortState state = PortState::down;  ///< of a cable between switches; a node has its own
  friend bool operator==(const Peer&, const Peer&) = default;
};

enum class RouteEnd : std::uint8_t {
  node,      ///< arrived at a node
  switch_,   ///< arrived at port 0 of a switch
  no_entry,  ///< a table has no entry for the LID, or names a port without a cable
  link_down,
  loop
};

struct Route {
  RouteEnd end = RouteEnd::no_entry;
  std::uint16_t index = 0;  ///< of the node, or of the switch at which the packet ended
  SwitchPort exit = 0;      ///< of that switch
  unsigned cables = 0;      ///< between switches, that the packet took
};

/// Whether a cable in this state carries a packet (IBA 7.2.7).
[[nodiscard]] constexpr bool carries(PortState state, bool subnet_management) {
  return subnet_management ? state != PortState::down : state == PortState::active;
}

/// Follows a unicast packet from switch `at`. `tables` has
///   std::optional<SwitchPort> exit(SwitchIndex, Lid)
///   Peer peer(SwitchIndex, SwitchPort)
/// and `on_cable(switch, exit)` is called for each cable between switches that the packet takes.
template <class Tables, class OnCable>
[[nodiscard]] Route follow(const Tables& tables, SwitchIndex at, Lid dlid, bool subnet_management,
                           OnCable&& on_cable) {
  for (unsigned hop = 0; hop < kMaxSwitchHops; ++hop) {
    const auto exit = tables.exit(at, dlid);
    if (!exit) return {RouteEnd::no_entry, at, 0, hop};
    if (*exit == 0) return {RouteEnd::switch_, at, 0, hop};
    const Peer peer = tables.peer(at, *exit);
    if (peer.kind == Peer::Kind::node) return {RouteEnd::node, peer.index, 0, hop};
    if (peer.kind == Peer::Kind::none) return {RouteEnd::no_entry, at, *exit, hop};
    if (!carries(peer.state, subnet_management)) return {RouteEnd::link_down, at, *exit, hop};
    on_cable(at, *exit);
    at = peer.index;
  }
  return {RouteEnd::loop, at, 0, kMaxSwitchHops};
}

template <class Tables>
[[nodiscard]] Route follow(const Tables& tables, SwitchIndex at, Lid dlid, bool subnet_management) {
  return follow(tables, at, dlid, subnet_management, [](SwitchIndex, SwitchPort) {});
}

/// Follows a multicast packet of a node at switch `at`, and returns the nodes that get it, at most
/// once each. `tables` also has
///   void for_each_exit(SwitchIndex, std::size_t group, visit(SwitchPort))
/// `has_looped` is set if the copies would not have ended.
template <class Tables, class OnCable>
[[nodiscard]] NodeSet spread(const Tables& tables, SwitchIndex at, std::size_t group,
                             bool& has_looped, OnCable&& on_cable) {
  struct Copy {
    SwitchIndex at;
    SwitchPort entry;  ///< 0: from the sender, to whose HCA the copy for itself belongs
  };
  NodeSet nodes;
  std::array<Copy, kMaxSwitchCopies> copies;  // not initialised: most packets use one or a few
  copies[0] = {at, 0};
  std::size_t count = 1;
  has_looped = false;
  for (std::size_t next = 0; next < count; ++next) {
    const Copy copy = copies[next];
    tables.for_each_exit(copy.at, group, [&](SwitchPort exit) {
      if (exit == copy.entry) return;
      const Peer peer = tables.peer(copy.at, exit);
      if (peer.kind == Peer::Kind::node) {
        nodes.set(peer.index);
      } else if (peer.kind == Peer::Kind::switch_port && carries(peer.state, false)) {
        has_looped = has_looped || count == copies.size();
        if (has_looped) return;
        on_cable(copy.at, exit);
        copies[count++] = {peer.index, peer.port};
      }
    });
  }
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
