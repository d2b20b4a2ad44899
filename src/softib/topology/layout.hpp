// Where the nodes of a topology are in a picture.
#pragma once

#include <vector>

#include "softib/topology/topology.hpp"

namespace softib::topology {

struct Point {
  int x = 0;
  int y = 0;
  friend bool operator==(const Point&, const Point&) = default;
};

/// Sizes in pixels, and of names in characters.
inline constexpr int kSwitchHeight = 24;
inline constexpr int kHostSize = 10;
inline constexpr int kHostSpace = 16;      ///< between the middles of two HCAs of a switch
inline constexpr int kCharacterWidth = 7;  ///< of the font, at most
inline constexpr std::size_t kMaxShownName = 18;

/// Middles of the nodes, by their index. No two switches overlap.
struct Layout {
  int width = 0;
  int height = 0;
  int switch_width = 0;
  std::vector<Point> switches;
  std::vector<Point> hcas;
  /// Where the names of the HCAs go: degrees, 0 is to the right, 90 down.
  std::vector<int> name_angles;
  bool is_circle = false;
};

/// Rows of switches by their level (summary.hpp), with the HCAs below. If all switches have the
/// same level, and not only neighbours in the row have cables, the switches stand in a circle with
/// the HCAs outside. HCAs without a cable to a switch stand in a row of their own at the bottom.
[[nodiscard]] Layout lay_out(const Topology& topology);

}  // namespace softib::topology
