#include "softib/topology/picture.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "softib/topology/check.hpp"
#include "softib/topology/layout.hpp"
#include "softib/topology/net_writer.hpp"
#include "softib/topology/summary.hpp"

namespace softib::topology {

namespace {

std::string counts(const Topology& topology) {
  const auto of = [](std::size_t count, const std::string& what, const std::string& more) {
    return std::to_string(count) + ' ' + (count == 1 ? what : more);
  };
  return of(topology.switches.size(), "switch", "switches") + ", " +
         of(topology.hcas.size(), "HCA", "HCAs") + ", " +
         of(topology.cables.size(), "cable", "cables");
}

std::string ports_text(const Topology& topology, const Cable& cable) {
  return name_of(topology, cable.a) + '[' + std::to_string(cable.a.port) + "] to " +
         name_of(topology, cable.b) + '[' + std::to_string(cable.b.port) + "], " + rate_text(cable);
}

/// A string of Graphviz. Other than printable ASCII characters become '?'.
std::string dot_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out + '"';
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      // Of other encodings than ASCII only a title can be, which may be no valid UTF-8.
      default:
        out += c >= ' ' && c <= '~' ? c : '?';
    }
  }
  return out;
}

/// A name, cut if it is long.
std::string shown_name(const std::string& name) {
  if (name.size() <= kMaxShownName) return xml_text(name);
  return xml_text(name.substr(0, kMaxShownName - 1)) + "&#8230;";
}

// Without variables, which some programs that show pictures do not know.
constexpr std::string_view kStyle = R"(<style>
text { fill: #1f2937; font: 11px Helvetica, Arial, sans-serif; }
.back { fill: #ffffff; }
.head { font-size: 14px; font-weight: bold; }
.cables { fill: none; stroke: #64748b; }
.count { text-anchor: middle; stroke: #ffffff; stroke-width: 3px; paint-order: stroke; }
.switch rect { fill: #dbeafe; stroke: #475569; }
.switch text { text-anchor: middle; }
.hca rect { fill: #fdba74; stroke: #475569; }
@media (prefers-color-scheme: dark) {
text { fill: #e2e8f0; }
.back { fill: #0f172a; }
.cables { stroke: #94a3b8; }
.count { stroke: #0f172a; }
.switch rect { fill: #1e3a8a; stroke: #94a3b8; }
.hca rect { fill: #c2410c; stroke: #94a3b8; }
}
</style>
)";

/// Draws a topology. Owns the text of the picture.
class SvgWriter {
 public:
  explicit SvgWriter(const Topology& topology) : topology_(topology), layout_(lay_out(topology)) {}

  std::string run(std::string_view title) {
    const std::string size = std::to_string(layout_.width) + ' ' + std::to_string(layout_.height);
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" +
           std::to_string(layout_.width) + "\" height=\"" + std::to_string(layout_.height) +
           "\" role=\"img\">\n<title>" + xml_text(title) + "</title>\n<desc>" + counts(topology_) +
           "</desc>\n";
    out_ += kStyle;
    out_ += "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n";
    out_ += "<text class=\"head\" x=\"24\" y=\"24\">" + xml_text(title) + "</text>\n";
    out_ += "<text x=\"24\" y=\"42\">" + counts(topology_) + "</text>\n";
    add_cables();
    for (std::size_t i = 0; i < topology_.switches.size(); ++i) add_switch(i);
    for (std::size_t i = 0; i < topology_.hcas.size(); ++i) add_hca(i);
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  using Node = std::pair<bool, std::uint16_t>;

  void add_cables() {
    std::map<std::pair<Node, Node>, std::vector<const Cable*>> lines;
    for (const auto& cable : topology_.cables) {
      Node a{cable.a.is_switch, cable.a.index};
      Node b{cable.b.is_switch, cable.b.index};
      if (b < a) std::swap(a, b);
      lines[{a, b}].push_back(&cable);
    }
    out_ += "<g class=\"cables\">\n";
    for (const auto& [ends, cables] : lines) add_line(ends.first, ends.second, cables);
    out_ += "</g>\n";
    for (const auto& [ends, cables] : lines) {
      if (cables.size() > 1) add_count(middle_of(ends.first, ends.second), cables.size());
    }
  }

  void add_line(const Node& a, const Node& b, const std::vector<const Cable*>& cables) {
    const Point from = point_of(a);
    const Point to = point_of(b);
    std::string path = "M" + text_of(from) + ' ';
    if (a == b) {  // a loop above the node
      path += "C" + text_of({from.x - kLoop, from.y - 2 * kLoop}) + ' ' +
              text_of({from.x + kLoop, from.y - 2 * kLoop}) + ' ';
    } else if (bends(a, b)) {
      path += "Q" + text_of({(from.x + to.x) / 2, from.y - 2 * bend(from, to)}) + ' ';
    } else {
      path += "L";
    }
    std::string title;
    for (const auto* cable : cables) {
      title += (title.empty() ? "" : "&#10;") + xml_text(ports_text(topology_, *cable));
    }
    out_ += "<path d=\"" + path + text_of(to) + '"' +
            (cables.size() > 1 ? " stroke-width=\"2\"" : "") + "><title>" + title +
            "</title></path>\n";
  }

  void add_count(const Point& at, std::size_t count) {
    out_ += "<text class=\"count\" x=\"" + std::to_string(at.x) + "\" y=\"" +
            std::to_string(at.y + 4) + "\">&#215;" + std::to_string(count) + "</text>\n";
  }

  void add_switch(std::size_t index) {
    const auto& node = topology_.switches[index];
    const Point at = layout_.switches[index];
    out_ += "<g class=\"switch\"><title>" + title_of("switch", node) + "</title><rect x=\"" +
            std::to_string(at.x - layout_.switch_width / 2) + "\" y=\"" +
            std::to_string(at.y - kSwitchHeight / 2) + "\" width=\"" +
            std::to_string(layout_.switch_width) + "\" height=\"" + std::to_string(kSwitchHeight) +
            "\" rx=\"4\"/><text x=\"" + std::to_string(at.x) + "\" y=\"" +
            std::to_string(at.y + 4) + "\">" + shown_name(node.name) + "</text></g>\n";
  }

  void add_hca(std::size_t index) {
    const auto& node = topology_.hcas[index];
    const Point at = layout_.hcas[index];
    // On the left half of a circle, a name is read towards the middle.
    const int angle = layout_.name_angles[index];
    const bool is_left = angle > 90 || angle < -90;
    const int turn = is_left ? angle + 180 : angle;
    const std::string offset = std::string(is_left ? "-" : "") + std::to_string(kNameOffset);
    out_ += "<g class=\"hca\"><title>" + title_of("HCA", node) + "</title><rect x=\"" +
            std::to_string(at.x - kHostSize / 2) + "\" y=\"" +
            std::to_string(at.y - kHostSize / 2) + "\" width=\"" + std::to_string(kHostSize) +
            "\" height=\"" + std::to_string(kHostSize) +
            "\" rx=\"2\"/><text transform=\"translate(" + text_of(at) + ") rotate(" +
            std::to_string(turn) + ")\" x=\"" + offset + "\" y=\"4\"" +
            (is_left ? " text-anchor=\"end\"" : "") + '>' + shown_name(node.name) + "</text></g>\n";
  }

  template <class Any>
  static std::string title_of(const char* kind, const Any& node) {
    std::string out = std::string(kind) + ' ' + xml_text(node.name) + ", " +
                      std::to_string(node.ports) + (node.ports == 1 ? " port" : " ports");
    if (!node.description.empty()) out += ": " + xml_text(node.description);
    return out;
  }

  [[nodiscard]] Point point_of(const Node& node) const {
    return node.first ? layout_.switches[node.second] : layout_.hcas[node.second];
  }

  /// Lines within a row are bent, so that they do not cross what stands between.
  [[nodiscard]] bool bends(const Node& a, const Node& b) const {
    return !layout_.is_circle && a.first == b.first && point_of(a).y == point_of(b).y;
  }
  static int bend(const Point& a, const Point& b) {
    return kSwitchHeight + std::min(std::abs(a.x - b.x) / 16, 2 * kSwitchHeight);
  }
  [[nodiscard]] Point middle_of(const Node& a, const Node& b) const {
    const Point from = point_of(a);
    const Point to = point_of(b);
    if (a == b) return {from.x, from.y - 2 * kLoop};
    const int up = bends(a, b) ? bend(from, to) : 0;
    return {(from.x + to.x) / 2, (from.y + to.y) / 2 - up};
  }

  static std::string text_of(const Point& point) {
    return std::to_string(point.x) + ',' + std::to_string(point.y);
  }

  static constexpr int kLoop = 20;
  static constexpr int kNameOffset = kHostSize / 2 + 4;

  const Topology& topology_;
  const Layout layout_;
  std::string out_;
};

}  // namespace

std::string write_dot(const Topology& topology, std::string_view title) {
  std::string out = "graph " + dot_string(title) +
                    " {\n  label=" + dot_string(std::string(title) + ": " + counts(topology)) +
                    ";\n  rankdir=BT;\n  node [shape=ellipse, fontsize=10];\n"
                    "  edge [fontsize=8];\n";
  const auto levels = switch_levels(topology, switch_graph(topology));
  std::map<unsigned, std::string> rows;
  for (std::size_t i = 0; i < topology.switches.size(); ++i) {
    const auto& node = topology.switches[i];
    out += "  " + dot_string(node.name) + " [shape=box, style=filled, fillcolor=\"#dbeafe\", " +
           "tooltip=" + dot_string(description_of(node)) + "];\n";
    rows[levels[i]] += ' ' + dot_string(node.name) + ';';
  }
  for (const auto& node : topology.hcas) {
    out += "  " + dot_string(node.name) + " [tooltip=" + dot_string(description_of(node)) + "];\n";
  }
  for (const auto& [level, names] : rows) {
    // A row of one level only would keep Graphviz from using the plane.
    if (rows.size() > 1 && level > 0) out += "  { rank=same;" + names + " }\n";
  }
  for (const auto& cable : topology.cables) {
    out += "  " + dot_string(name_of(topology, cable.a)) + " -- " +
           dot_string(name_of(topology, cable.b)) +
           " [taillabel=" + dot_string(std::to_string(cable.a.port)) +
           ", headlabel=" + dot_string(std::to_string(cable.b.port)) +
           ", tooltip=" + dot_string(ports_text(topology, cable)) + "];\n";
  }
  return out + "}\n";
}

std::string write_svg(const Topology& topology, std::string_view title) {
  return SvgWriter(topology).run(title);
}

}  // namespace softib::topology
