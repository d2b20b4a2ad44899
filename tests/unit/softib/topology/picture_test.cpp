#include "softib/topology/picture.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "softib/topology/layout.hpp"
#include "softib/topology/shapes.hpp"
#include "topologies.hpp"

namespace softib::topology {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t out = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

const std::vector<const char*> kShapes{"fat-tree:6",  "fat-tree:14",   "fat-tree:4,2",
                                       "torus:3x4,2", "torus:6x6x6,4", "dragonfly:4,2,2",
                                       "line:30,5",   "star:254",      "torus:30x33,1"};

TEST(Layout, SwitchesDoNotOverlapAndNothingIsOutside) {
  for (const char* each : kShapes) {
    const Topology topology = *make_shape(each);
    const Layout layout = lay_out(topology);
    const auto& at = layout.switches;
    for (std::size_t i = 0; i < at.size(); ++i) {
      EXPECT_GE(at[i].x, layout.switch_width / 2) << each;
      EXPECT_LE(at[i].x, layout.width - layout.switch_width / 2) << each;
      for (std::size_t j = i + 1; j < at.size(); ++j) {
        EXPECT_TRUE(std::abs(at[i].x - at[j].x) >= layout.switch_width ||
                    std::abs(at[i].y - at[j].y) >= kSwitchHeight)
            << each << ": " << topology.switches[i].name << ' ' << topology.switches[j].name;
      }
    }
    for (const auto& host : layout.hcas) {
      EXPECT_TRUE(host.x >= kHostSize && host.x <= layout.width - kHostSize &&
                  host.y >= kHostSize && host.y <= layout.height - kHostSize)
          << each;
    }
  }
}

TEST(Layout, TreesHaveARowForEachLevel) {
  const Layout layout = lay_out(*make_shape("fat-tree:4"));
  EXPECT_FALSE(layout.is_circle);
  EXPECT_GT(layout.hcas[0].y, layout.switches[0].y);
  EXPECT_GT(layout.switches[0].y, layout.switches[8].y) << "leaf-1, spine-1";
  EXPECT_GT(layout.switches[8].y, layout.switches[16].y) << "spine-1, core-1";
  EXPECT_EQ(layout.switches[0].y, layout.switches[7].y);
  EXPECT_TRUE(lay_out(*make_shape("torus:3x3")).is_circle);
  EXPECT_FALSE(lay_out(*make_shape("line:9")).is_circle);
}

TEST(Layout, HcasWithoutACableStandInARowAtTheBottom) {
  Topology topology = *make_shape("star:3");
  const auto with_cables = topology.hcas.size();
  topology.hcas.push_back({"alone-1", "", Guid(), 1, {}});
  topology.hcas.push_back({"alone-2", "", Guid(), 1, {}});
  const Layout layout = lay_out(topology);
  const Point first = layout.hcas[with_cables];
  for (std::size_t i = 0; i < with_cables; ++i) EXPECT_GT(first.y, layout.hcas[i].y);
  EXPECT_EQ(layout.hcas[with_cables + 1], (Point{first.x + kHostSpace, first.y}));
  EXPECT_GE(first.x, kHostSize);
  EXPECT_LE(first.x + kHostSpace, layout.width - kHostSize);
  EXPECT_LE(first.y, layout.height - kHostSize);
}

TEST(Layout, OfNothing) {
  const Layout layout = lay_out({});
  EXPECT_GT(layout.width, 0);
  EXPECT_GT(layout.height, 0);
}

TEST(Picture, SvgHasEachNodeAndLine) {
  const auto svg = write_svg(*make_shape("fat-tree:6"), "tree");
  EXPECT_EQ(count(svg, "<g class=\"switch\">"), 45U);
  EXPECT_EQ(count(svg, "<g class=\"hca\">"), 54U);
  EXPECT_EQ(count(svg, "<path "), 162U);
  EXPECT_EQ(count(svg, "&#215;"), 0U);
  EXPECT_THAT(svg, AllOf(HasSubstr("<desc>45 switches, 54 HCAs, 162 cables</desc>"),
                         HasSubstr("prefers-color-scheme: dark"), HasSubstr("role=\"img\""),
                         HasSubstr("host-17[1] to leaf-6[2], 4xQDR"), Not(HasSubstr("var(")),
                         Not(HasSubstr("href"))));
}

TEST(Picture, NodesAndLinesAreWhereTheLayoutHasThem) {
  const Topology topology = *make_shape("star:2");
  const Layout layout = lay_out(topology);
  const auto svg = write_svg(topology, "");
  const auto text = [](const Point& at) {
    return std::to_string(at.x) + ',' + std::to_string(at.y);
  };
  const auto box = [](const Point& middle, int width, int height) {
    return "<rect x=\"" + std::to_string(middle.x - width / 2) + "\" y=\"" +
           std::to_string(middle.y - height / 2) + '"';
  };
  EXPECT_THAT(svg, HasSubstr(box(layout.switches[0], layout.switch_width, kSwitchHeight)));
  for (const auto& host : layout.hcas) {
    EXPECT_THAT(svg, HasSubstr(box(host, kHostSize, kHostSize)));
    EXPECT_THAT(svg, HasSubstr("<path d=\"M" + text(host) + " L" + text(layout.switches[0]) + '"'));
  }
}

TEST(Picture, CablesBetweenTheSameNodesAreOneLine) {
  Topology topology = small_topology();
  const auto svg = write_svg(topology, "");
  EXPECT_EQ(count(svg, "<path "), 3U);
  EXPECT_EQ(count(svg, "&#215;2<"), 1U);
  const auto between = std::ranges::find_if(
      topology.cables, [](const Cable& each) { return each.a.is_switch && each.b.is_switch; });
  std::swap(between->a, between->b);
  EXPECT_EQ(count(write_svg(topology, ""), "<path "), 3U) << "whichever end is first";
  EXPECT_THAT(svg, HasSubstr("left[1] to right[1], 4xQDR&#10;left[2] to right[2], 4xQDR"));
}

TEST(Picture, TextIsEscaped) {
  Topology topology = small_topology();
  topology.switches[0].description = "<b> & 'x' \\";
  const std::string title = "a\"b<c>\n&\xff.net";
  const auto svg = write_svg(topology, title);
  EXPECT_THAT(svg, AllOf(HasSubstr("<title>a&quot;b&lt;c&gt;?&amp;?.net</title>"),
                         HasSubstr(": &lt;b&gt; &amp; 'x' \\</title>"), Not(HasSubstr("<b>"))));
  const auto dot = write_dot(topology, title);
  EXPECT_THAT(dot, AllOf(HasSubstr("graph \"a\\\"b<c>?&?.net\" {"),
                         HasSubstr("tooltip=\"<b> & 'x' \\\\\"")));
}

TEST(Picture, LongNamesAreCut) {
  Topology topology = small_topology();
  topology.switches[0].name = std::string(kMaxNodeName, 'x');
  const auto svg = write_svg(topology, "");
  EXPECT_EQ(count(svg, ">" + std::string(kMaxShownName - 1, 'x') + "&#8230;<"), 1U);
  EXPECT_THAT(svg, HasSubstr("<title>switch " + std::string(kMaxNodeName, 'x') + ", 4 ports"));
}

TEST(Picture, DotHasEachCableAndRows) {
  const auto dot = write_dot(*make_shape("fat-tree:4"), "tree");
  EXPECT_EQ(count(dot, " -- "), 48U);
  EXPECT_EQ(count(dot, "rank=same"), 3U);
  EXPECT_THAT(dot, HasSubstr("\"host-3\" -- \"leaf-2\" [taillabel=\"1\", headlabel=\"1\""));
  EXPECT_EQ(count(write_dot(*make_shape("torus:3x3"), ""), "rank=same"), 0U);
}

TEST(Picture, OfAnyTopology) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Topology topology = RandomTopology(seed).make();
    EXPECT_EQ(count(write_dot(topology, ""), " -- "), topology.cables.size());
    EXPECT_EQ(count(write_svg(topology, ""), "<g class=\"hca\">"), topology.hcas.size());
  }
}

}  // namespace
}  // namespace softib::topology
