#include "softib/topology/shapes.hpp"

#include <gmock/gmock.h>

#include "softib/topology/check.hpp"
#include "softib/topology/summary.hpp"

namespace softib::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Topology shape(std::string_view specification) {
  auto made = make_shape(specification);
  EXPECT_TRUE(made.has_value()) << specification << ": " << (made ? "" : made.error().message);
  return made ? *made : Topology();
}

TEST(Shapes, AreValidAndCanonical) {
  for (const char* each :
       {"fat-tree:2", "fat-tree:6", "fat-tree:14", "fat-tree:2,2", "fat-tree:44,2", "torus:2x2",
        "torus:3x4,2", "torus:2x3x4,0", "torus:32x32,0", "dragonfly:1,1,1", "dragonfly:4,2,2",
        "dragonfly:4,2,2,3", "dragonfly:1,5,0", "line:1", "line:1024,0", "line:5,3", "star:1",
        "star:254"}) {
    const Topology topology = shape(each);
    const auto checked = check(topology);
    EXPECT_TRUE(checked.has_value()) << each << ": " << checked.error().message;
    EXPECT_EQ(topology, canonical(topology)) << each;
    EXPECT_EQ(summarize(topology).parts, 1U) << each;
  }
}

TEST(Shapes, FatTreeOfThreeLevelsHasFullBisection) {
  const Topology topology = shape("fat-tree:6");
  const auto summary = summarize(topology);
  EXPECT_THAT(summary.levels,
              ElementsAre(Level{18, 54, 54, 0}, Level{18, 54, 54, 0}, Level{9, 54, 0, 0}));
  EXPECT_EQ(summary.hcas, 54U);
  EXPECT_EQ(summary.diameter, 6U);
  EXPECT_EQ(topology.switches[0].name, "leaf-1");
  EXPECT_EQ(topology.switches[35].name, "spine-18");
  EXPECT_EQ(topology.switches[44].name, "core-9");
  EXPECT_EQ(topology.hcas[53].name, "host-54");
  // Each core reaches each pod by one cable, each spine the leaf switches of its pod only.
  const auto graph = switch_graph(topology);
  for (std::size_t core = 36; core < 45; ++core) {
    std::vector<unsigned> pods;
    for (const auto spine : graph[core]) pods.push_back((spine - 18U) / 3);
    EXPECT_THAT(pods, ElementsAre(0, 1, 2, 3, 4, 5)) << core;
  }
  for (std::size_t leaf = 0; leaf < 18; ++leaf) {
    const auto first = static_cast<unsigned>(18 + leaf / 3 * 3);
    EXPECT_THAT(graph[leaf], ElementsAre(first, first + 1, first + 2)) << leaf;
  }
}

TEST(Shapes, FatTreeOfTwoLevels) {
  const auto summary = summarize(shape("fat-tree:4,2"));
  EXPECT_THAT(summary.levels, ElementsAre(Level{4, 8, 8, 0}, Level{2, 8, 0, 0}));
  EXPECT_EQ(summary.diameter, 4U);
}

TEST(Shapes, TorusHasNeighboursInEachDimension) {
  const Topology topology = shape("torus:3x4x5,2");
  EXPECT_EQ(topology.switches.size(), 60U);
  EXPECT_EQ(topology.hcas.size(), 120U);
  EXPECT_EQ(topology.switches[0].name, "switch-1-1-1");
  EXPECT_EQ(topology.switches[59].name, "switch-3-4-5");
  const auto graph = switch_graph(topology);
  for (std::size_t i = 0; i < graph.size(); ++i) EXPECT_EQ(graph[i].size(), 6U) << i;
  EXPECT_THAT(graph[0], ElementsAre(1, 4, 5, 15, 20, 40));
  EXPECT_EQ(summarize(topology).diameter, 1 + 2 + 2 + 2U);
  // A ring of two would need two cables between the same switches.
  EXPECT_EQ(summarize(shape("torus:2x2")).cables, 4U + 4U);
}

TEST(Shapes, DragonflyHasOneCableBetweenTwoGroups) {
  const Topology topology = shape("dragonfly:4,2,2");
  const auto summary = summarize(topology);
  EXPECT_EQ(summary.switches, 36U);
  EXPECT_EQ(summary.hcas, 72U);
  EXPECT_EQ(summary.diameter, 2 + 3U);
  std::vector<std::vector<unsigned>> between(9, std::vector<unsigned>(9));
  for (const auto& cable : topology.cables) {
    if (!cable.a.is_switch || !cable.b.is_switch) continue;
    ++between[cable.a.index / 4][cable.b.index / 4];
  }
  for (std::size_t a = 0; a < 9; ++a) {
    EXPECT_EQ(between[a][a], 6U) << "a complete graph";
    for (std::size_t b = a + 1; b < 9; ++b) EXPECT_EQ(between[a][b] + between[b][a], 1U);
  }
  for (const auto& each : topology.switches) EXPECT_EQ(each.ports, 2 + 3 + 2);
  EXPECT_EQ(topology.switches[5].name, "group-2-switch-2");
}

TEST(Shapes, LineAndStar) {
  const auto line = summarize(shape("line:5,3"));
  EXPECT_THAT(line.levels, ElementsAre(Level{5, 15, 0, 4}));
  EXPECT_EQ(line.diameter, 6U);
  EXPECT_EQ(summarize(shape("star:8")).diameter, 2U);
  EXPECT_EQ(summarize(shape("star:1")).diameter, std::nullopt);
}

TEST(Shapes, ErrorsStateGrammarAndLimits) {
  for (const char* each :
       {"fat-tree:5", "fat-tree:0", "fat-tree:26", "fat-tree:92,2", "fat-tree:4,4", "fat-tree:4,1",
        "fat-tree:4,2,1", "fat-tree:", "fat-tree:x", "fat-tree:-4", "fat-tree:4,",
        "fat-tree:65536,2", "fat-tree:99999999999"}) {
    const auto made = make_shape(each);
    ASSERT_FALSE(made.has_value()) << each;
    EXPECT_THAT(made.error().message, HasSubstr("fat-tree:K[,LEVELS] with an even"));
    EXPECT_THAT(made.error().message, HasSubstr(each));
  }
  for (const char* each :
       {"torus:3", "torus:1x3", "torus:3x3x3x3", "torus:32x32,4", "torus:33x32,0", "torus:3x3,255",
        "torus:3x3,1,1", "torus:3,3", "torus:3x,1", "torus:1024x1024x1024"}) {
    const auto made = make_shape(each);
    ASSERT_FALSE(made.has_value()) << each;
    EXPECT_THAT(made.error().message, HasSubstr("torus:AxB[xC][,HOSTS] with"));
  }
  for (const char* each :
       {"dragonfly:4,2", "dragonfly:4,2,2,10", "dragonfly:0,1,1", "dragonfly:4,2,2,0",
        "dragonfly:1024,1024,1024", "dragonfly:1,0,0", "dragonfly:200,60,60"}) {
    const auto made = make_shape(each);
    ASSERT_FALSE(made.has_value()) << each;
    EXPECT_THAT(made.error().message, HasSubstr("dragonfly:A,P,H[,GROUPS] with"));
  }
  for (const char* each : {"line:0", "line:1024,4", "line:1025,0", "line:1,253", "line:1,1,1"}) {
    EXPECT_FALSE(make_shape(each).has_value()) << each;
  }
  for (const char* each : {"star:0", "star:255", "star:1,1"}) {
    EXPECT_FALSE(make_shape(each).has_value()) << each;
  }
  const auto unknown = make_shape("hypercube:4");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("fat-tree:..., torus:..."));
  EXPECT_FALSE(is_shape("fat-tree"));
  EXPECT_FALSE(is_shape("./star:4"));
  EXPECT_TRUE(is_shape("star:"));
}

}  // namespace
}  // namespace softib::topology
