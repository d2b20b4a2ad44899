#include "softib/topology/layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "softib/topology/summary.hpp"

namespace softib::topology {

namespace {

constexpr int kMargin = 24;
constexpr int kTop = 56;         // the line with the counts
constexpr int kGap = 18;         // between two switches
constexpr int kRowHeight = 110;  // between two levels
constexpr int kHostDrop = 48;    // from a switch to its HCAs
constexpr int kBehindHost = 12;  // from the middle of an HCA to its name

/// The space for the longest of the names that are shown.
template <class Nodes>
int name_space(const Nodes& nodes) {
  std::size_t longest = 0;
  for (const auto& each : nodes) longest = std::max(longest, each.name.size());
  return static_cast<int>(std::min(longest, kMaxShownName)) * kCharacterWidth;
}

/// Owns the layout while it is made.
class LayoutMaker {
 public:
  explicit LayoutMaker(const Topology& topology)
      : topology_(topology),
        graph_(switch_graph(topology)),
        levels_(switch_levels(topology, graph_)),
        hosts_(topology.switches.size()) {
    // A switch that reaches no HCA stands where it would with one.
    std::ranges::replace(levels_, 0U, 1U);
    out_.switches.resize(topology.switches.size());
    out_.hcas.resize(topology.hcas.size());
    out_.name_angles.assign(topology.hcas.size(), 90);
    out_.switch_width = name_space(topology.switches) + kGap;
    name_height_ = name_space(topology.hcas) + kBehindHost + kMargin;
    assign_hosts();
  }

  Layout run() {
    out_.is_circle = needs_circle();
    out_.width = 2 * kMargin + static_cast<int>(kMaxShownName) * kCharacterWidth * 2;
    out_.height = kTop;
    if (out_.is_circle) {
      make_circle();
    } else {
      make_rows();
    }
    add_alone();
    return std::move(out_);
  }

 private:
  /// Each HCA stands at the first switch that it has a cable to.
  void assign_hosts() {
    std::vector<std::optional<std::uint16_t>> at(topology_.hcas.size());
    for (const auto& cable : topology_.cables) {
      if (cable.a.is_switch == cable.b.is_switch) continue;
      const End& host = cable.a.is_switch ? cable.b : cable.a;
      const End& other = cable.a.is_switch ? cable.a : cable.b;
      if (!at[host.index]) at[host.index] = other.index;
    }
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (at[i]) {
        hosts_[*at[i]].push_back(i);
      } else {
        alone_.push_back(i);
      }
    }
  }

  /// Whether cables of a row would cross switches between their ends.
  [[nodiscard]] bool needs_circle() const {
    if (std::ranges::any_of(levels_, [](unsigned level) { return level > 1; })) return false;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      for (const auto other : graph_[i]) {
        if (other > i + 1) return true;
      }
    }
    return false;
  }

  /// The width that a switch and its HCAs take.
  [[nodiscard]] int space_of(std::size_t index) const {
    return std::max(out_.switch_width + kGap,
                    static_cast<int>(hosts_[index].size()) * kHostSpace + kGap);
  }

  void make_rows() {
    const unsigned highest = levels_.empty() ? 0 : *std::ranges::max_element(levels_);
    std::vector<std::vector<std::uint16_t>> rows(highest);
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      rows[levels_[i] - 1].push_back(static_cast<std::uint16_t>(i));
    }
    std::vector<int> widths;
    for (const auto& row : rows) {
      widths.push_back(std::accumulate(row.begin(), row.end(), 0, [&](int sum, std::size_t each) {
        return sum + space_of(each);
      }));
      out_.width = std::max(out_.width, widths.back() + 2 * kMargin);
    }
    int y = kTop + kSwitchHeight + static_cast<int>(highest) * kRowHeight - kRowHeight;
    for (std::size_t level = 0; level < rows.size(); ++level) {
      if (level > 0) sort_by_neighbours(rows[level]);
      place_row(rows[level], widths[level], y);
      y -= kRowHeight;
    }
    out_.height = kTop + kSwitchHeight + static_cast<int>(highest) * kRowHeight - kRowHeight +
                  kHostDrop + name_height_;
  }

  /// Sorts a row by the middle of the lower neighbours of each switch.
  void sort_by_neighbours(std::vector<std::uint16_t>& row) {
    const auto middle = [&](std::uint16_t index) {
      std::int64_t sum = 0;
      std::int64_t count = 0;
      for (const auto other : graph_[index]) {
        if (levels_[other] >= levels_[index]) continue;
        sum += out_.switches[other].x;
        ++count;
      }
      return count == 0 ? 0 : sum / count;
    };
    std::vector<std::pair<std::int64_t, std::uint16_t>> keyed;
    keyed.reserve(row.size());
    for (const auto each : row) keyed.emplace_back(middle(each), each);
    std::ranges::sort(keyed);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = keyed[i].second;
  }

  /// Spreads a row over the width of the picture.
  void place_row(const std::vector<std::uint16_t>& row, int row_width, int y) {
    if (row.empty()) return;
    const int spare = (out_.width - 2 * kMargin - row_width) / static_cast<int>(row.size());
    int x = kMargin;
    for (const auto each : row) {
      const int space = space_of(each) + spare;
      out_.switches[each] = {x + space / 2, y};
      int host_x = x + space / 2 - (static_cast<int>(hosts_[each].size()) - 1) * kHostSpace / 2;
      for (const auto host : hosts_[each]) {
        out_.hcas[host] = {host_x, y + kHostDrop};
        host_x += kHostSpace;
      }
      x += space;
    }
  }

  void make_circle() {
    int around = 0;
    for (std::size_t i = 0; i < out_.switches.size(); ++i) around += space_of(i);
    const double radius = std::max(90.0, around / (2 * std::numbers::pi));
    // The width of a switch counts most where the circle goes up and down.
    const double wide = radius + out_.switch_width / 2.0;
    const double host_drop = kHostDrop + out_.switch_width / 2.0;
    const int middle_x = static_cast<int>(wide + host_drop) + name_height_;
    const int middle_y = static_cast<int>(radius + host_drop) + name_height_ + kTop;
    double at = 0;
    for (std::size_t i = 0; i < out_.switches.size(); ++i) {
      const double turn = 2 * std::numbers::pi / around;
      const double angle = (at + space_of(i) / 2.0) * turn - std::numbers::pi / 2;
      out_.switches[i] = {middle_x + static_cast<int>(wide * std::cos(angle)),
                          middle_y + static_cast<int>(radius * std::sin(angle))};
      const double outer = radius + host_drop;
      const double step = kHostSpace / outer;
      double host_angle = angle - step * (static_cast<double>(hosts_[i].size()) - 1) / 2;
      for (const auto host : hosts_[i]) {
        out_.hcas[host] = {middle_x + static_cast<int>((wide + host_drop) * std::cos(host_angle)),
                           middle_y + static_cast<int>(outer * std::sin(host_angle))};
        out_.name_angles[host] = static_cast<int>(std::lround(host_angle * 180 / std::numbers::pi));
        host_angle += step;
      }
      at += space_of(i);
    }
    out_.width = std::max(out_.width, 2 * middle_x);
    out_.height = 2 * middle_y - kTop;
  }

  void add_alone() {
    if (alone_.empty()) return;
    int x = kMargin + kHostSize;
    for (const auto host : alone_) {
      out_.hcas[host] = {x, out_.height + kHostSize};
      x += kHostSpace;
    }
    out_.width = std::max(out_.width, x + kMargin);
    out_.height += name_height_ + kHostSize;
  }

  const Topology& topology_;
  const SwitchGraph graph_;
  std::vector<unsigned> levels_;
  std::vector<std::vector<std::size_t>> hosts_;  ///< of each switch
  std::vector<std::size_t> alone_;
  int name_height_ = 0;  ///< from an HCA to the edge of the picture
  Layout out_;
};

}  // namespace

Layout lay_out(const Topology& topology) { return LayoutMaker(topology).run(); }

}  // namespace softib::topology
