// A topology for tests: two leaf switches with two hosts each, and two spine switches.
//
//     spine-1     spine-2          port i of a spine is connected to leaf-i
//        | \     / |
//        |   \ /   |
//        |   / \   |
//     leaf-1      leaf-2           ports 1 and 2: hosts; 3: spine-1; 4: spine-2
//      |  |        |  |
//   host-1 -2   host-3 -4
#pragma once

#include <string>

#include "softib/topology/topology.hpp"

namespace softib::test {

[[nodiscard]] inline topology::Topology two_level_tree() {
  topology::Topology tree;
  for (const auto* name : {"leaf-1", "leaf-2", "spine-1", "spine-2"}) {
    tree.switches.push_back({name, "", Guid(), 4});
  }
  for (int i = 1; i <= 4; ++i) {
    tree.hcas.push_back({"host-" + std::to_string(i), "", Guid(), 1, {}});
  }
  const auto cable = [&](bool to_switch, int leaf, int port, int to, int to_port) {
    tree.cables.push_back(
        {{true, static_cast<std::uint16_t>(leaf), static_cast<std::uint8_t>(port)},
         {to_switch, static_cast<std::uint16_t>(to), static_cast<std::uint8_t>(to_port)}});
  };
  for (int leaf = 0; leaf < 2; ++leaf) {
    for (int i = 0; i < 2; ++i) {
      cable(false, leaf, 1 + i, 2 * leaf + i, 1);
      cable(true, leaf, 3 + i, 2 + i, 1 + leaf);
    }
  }
  return tree;
}

}  // namespace softib::test
