// Topologies for tests.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "softib/topology/check.hpp"

namespace softib::topology {

/// Two switches with two cables, and an HCA whose ports are at both.
inline Topology small_topology() {
  Topology out;
  out.switches = {{"left", {}, Guid(), 4}, {"right", "The right one", Guid(0x77), 8}};
  out.hcas = {{"host", {}, Guid(), 2, {}}};
  out.cables = {{{true, 0, 1}, {true, 1, 1}},
                {{true, 0, 2}, {true, 1, 2}},
                {{false, 0, 1}, {true, 0, 3}},
                {{false, 0, 2}, {true, 1, 8}}};
  return canonical(std::move(out));
}

/// A valid topology that depends on the seed only: names, descriptions, GUIDs, cables and rates of
/// all kinds, also cables within a node and between HCAs. Only ports with a cable have port GUIDs,
/// since the formats cannot have others.
class RandomTopology {
 public:
  explicit RandomTopology(unsigned seed) : random_(seed) {}

  Topology make() {
    const unsigned switches = below(8);
    const unsigned hcas = below(8);
    const bool has_guids = below(2) == 0;
    for (unsigned i = 0; i < switches; ++i) {
      topology_.switches.push_back({name(i), description(), guid(has_guids, i),
                                    static_cast<std::uint8_t>(1 + below(kMaxSwitchPorts))});
    }
    for (unsigned i = 0; i < hcas; ++i) {
      topology_.hcas.push_back({name(100 + i),
                                description(),
                                guid(has_guids, 100 + i),
                                static_cast<std::uint8_t>(1 + below(kMaxHcaPorts)),
                                {}});
    }
    add_cables();
    return canonical(std::move(topology_));
  }

 private:
  unsigned below(unsigned most) { return static_cast<unsigned>(random_() % most); }

  std::string name(unsigned number) {
    const std::string digits = std::to_string(number);
    switch (below(4)) {
      case 0:
        return "S-000000000000" + std::string(4 - digits.size(), '0') + digits;
      case 1:
        return digits;
      case 2:
        return std::string(kMaxNodeName - digits.size(), 'x') + digits;
      default:
        return "_a.b-" + digits;
    }
  }

  std::string description() {
    static const std::vector<std::string> kAll{
        "",     "host HCA-1", "# lid 4 lmc 0 enhanced port 0",   "  <&'\\%s w=4 \t",
        "same", "same",       std::string(kMaxDescription, 'd'), "S-0000000000000001"};
    std::string out = kAll[below(static_cast<unsigned>(kAll.size()))];
    std::ranges::replace(out, '\t', ' ');
    return out;
  }

  Guid guid(bool has_guids, unsigned number) {
    if (!has_guids || below(3) == 0) return Guid();
    return Guid((std::uint64_t{random_()} << 32U) | (number << 8U));
  }

  void add_cables() {
    std::vector<End> ends;
    for (std::size_t i = 0; i < topology_.switches.size(); ++i) {
      for (unsigned port = 1; port <= topology_.switches[i].ports; ++port) {
        ends.push_back({true, static_cast<std::uint16_t>(i), static_cast<std::uint8_t>(port)});
      }
    }
    for (std::size_t i = 0; i < topology_.hcas.size(); ++i) {
      for (unsigned port = 1; port <= topology_.hcas[i].ports; ++port) {
        ends.push_back({false, static_cast<std::uint16_t>(i), static_cast<std::uint8_t>(port)});
      }
    }
    std::ranges::shuffle(ends, random_);
    const unsigned cables = ends.size() < 2 ? 0 : below(static_cast<unsigned>(ends.size() / 2));
    constexpr std::array<std::uint8_t, 5> kWidths{1, 2, 4, 8, 16};
    constexpr std::array<std::uint8_t, 3> kSpeeds{1, 2, 4};
    constexpr std::array<std::uint8_t, 5> kExtended{0, 1, 2, 4, 8};
    for (unsigned i = 0; i < cables; ++i) {
      topology_.cables.push_back({ends[2 * i], ends[2 * i + 1], kWidths[below(5)],
                                  kSpeeds[below(3)], kExtended[below(5)]});
      for (const auto& end : {ends[2 * i], ends[2 * i + 1]}) {
        if (end.is_switch || below(2) == 0) continue;
        topology_.hcas[end.index].port_guids[end.port - 1U] =
            Guid(0xa000'0000 + end.index * 16U + end.port);
      }
    }
  }

  std::mt19937 random_;
  Topology topology_;
};

}  // namespace softib::topology
