// The routes of the subnet's own SM: shortest paths between switches, over all of the shortest ones
// by LID, and for each multicast group a spanning tree.
//
// In a tree of switches, shortest paths go up and then down, so credits never wait in a circle.
#pragma once

#include <vector>

#include "softib/subnet/switches.hpp"

namespace softib::subnet {

class Routing {
 public:
  /// `switches` must outlive this object.
  explicit Routing(Switches& switches) : switches_(switches) {}

  /// To be called before the first route, and after cables between switches have changed; the
  /// caller then writes all routes again.
  void cables_changed();
  /// Whether cables lead from one switch to another.
  [[nodiscard]] bool reaches(SwitchIndex from, SwitchIndex to) const {
    return hops_[std::size_t{from} * switches_.size() + to] != kUnreachable;
  }
  /// A LID, and the port that it is at; 0 for the switch itself.
  struct Destination {
    Lid lid;
    SwitchPort port = 0;
  };
  /// Writes the routes of LIDs of one switch, or of nodes at it, into all tables.
  void set_routes(SwitchIndex to, const std::vector<Destination>& destinations);
  void clear_route(Lid lid);
  /// Writes the routes of a multicast LID into all tables. Any node may send to `receivers`, the
  /// ports of the nodes that get the packets.
  void set_group(std::size_t group, const std::vector<Attachment>& receivers);

 private:
  static constexpr std::uint16_t kUnreachable = 0xffff;
  [[nodiscard]] std::uint16_t& hops(SwitchIndex from, SwitchIndex to) {
    return hops_[std::size_t{from} * switches_.size() + to];
  }
  /// A cable that carries packets to another switch.
  struct Way {
    SwitchPort port = 0;
    SwitchIndex to = 0;
    SwitchPort to_port = 0;
  };
  void find_ways();
  void measure(SwitchIndex from);
  /// The ports of `from` on a shortest path to `to`.
  [[nodiscard]] const std::vector<SwitchPort>& exits(SwitchIndex from, SwitchIndex to);
  void choose_tree();

  Switches& switches_;
  std::vector<std::vector<Way>> ways_;  ///< by switch
  std::vector<std::uint16_t> hops_;     ///< by switch and switch
  std::vector<SwitchPort> exits_;       ///< of the last call of exits()
  /// The spanning tree of multicast, one for each connected part: in which order to visit switches
  /// so that each comes after its parent, and the port towards the parent, 0 for a root.
  std::vector<SwitchIndex> tree_order_;
  std::vector<SwitchPort> to_parent_;
};

}  // namespace softib::subnet
