#include "softib/topology/summary.hpp"

#include <gmock/gmock.h>

#include "topologies.hpp"

namespace softib::topology {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(TopologySummary, CountsWhatIsThere) {
  Topology topology = small_topology();
  topology.cables[0].width = 8;
  topology.hcas.push_back({"alone", {}, Guid(), 1, {}});
  topology.switches.push_back({"apart", {}, Guid(), 1});
  const auto summary = summarize(topology);
  EXPECT_EQ(summary.switches, 3U);
  EXPECT_EQ(summary.hcas, 2U);
  EXPECT_EQ(summary.unconnected_hcas, 1U);
  EXPECT_EQ(summary.parts, 2U);
  EXPECT_EQ(summary.cables, 4U);
  EXPECT_THAT(summary.rates, ElementsAre(Pair("12xQDR", 1U), Pair("4xQDR", 3U)));
  EXPECT_THAT(summary.levels, ElementsAre(Level{2, 2, 0, 2}));
  EXPECT_EQ(summary.diameter, 3U);
}

TEST(TopologySummary, OfNothing) {
  const auto summary = summarize({});
  EXPECT_EQ(summary.parts, 0U);
  EXPECT_THAT(summary.levels, IsEmpty());
  EXPECT_EQ(summary.diameter, std::nullopt);
}

TEST(TopologySummary, TwoHcasMayHaveACableWithoutASwitch) {
  Topology topology;
  topology.hcas = {{"a", {}, Guid(), 1, {}}, {"b", {}, Guid(), 1, {}}};
  topology.cables = {{{false, 0, 1}, {false, 1, 1}}};
  EXPECT_EQ(summarize(topology).diameter, 1U);
}

TEST(TopologySummary, AnHcaJoinsNoParts) {
  Topology topology;
  topology.switches = {{"red", {}, Guid(), 2}, {"blue", {}, Guid(), 2}};
  topology.hcas = {{"a", {}, Guid(), 2, {}}, {"b", {}, Guid(), 2, {}}};
  topology.cables = {{{false, 0, 1}, {true, 0, 1}},
                     {{false, 0, 2}, {true, 1, 1}},
                     {{false, 1, 1}, {true, 0, 2}},
                     {{false, 1, 2}, {true, 1, 2}}};
  EXPECT_EQ(summarize(topology).parts, 2U);
  EXPECT_EQ(summarize(topology).diameter, 2U);
}

}  // namespace
}  // namespace softib::topology
