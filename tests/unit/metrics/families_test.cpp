#include "metrics/families.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sstream>

namespace ipoib::metrics {
namespace {

using testing::ElementsAre;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Families, AFamilyHasOneHeadAndAllItsSamples) {
  Families families;
  families.counter("x_drops_total", "Dropped.", {{"interface", "ib0"}, {"reason", "a"}}, 3);
  families.gauge("x_up", "Up.", {}, 1);
  families.counter("x_drops_total", "Dropped.", {{"interface", "ib0"}, {"reason", "b"}},
                   1ULL << 53);
  EXPECT_THAT(lines_of(families.text()),
              ElementsAre("# HELP x_drops_total Dropped.", "# TYPE x_drops_total counter",
                          R"(x_drops_total{interface="ib0",reason="a"} 3)",
                          R"(x_drops_total{interface="ib0",reason="b"} 9007199254740992)",
                          "# HELP x_up Up.", "# TYPE x_up gauge", "x_up 1"));
}

TEST(Families, DropsHaveTheirReasonAsALabel) {
  Families families;
  const Labels labels{{"interface", "ib0"}};
  families.drops("x_drops_total", "x(8)", labels, "drop_too_big", 3);
  families.drops("x_drops_total", "x(8)", labels, "odd", 4);
  EXPECT_THAT(lines_of(families.text()),
              ElementsAre("# HELP x_drops_total Dropped packets, by reason: drop_REASON of x(8).",
                          "# TYPE x_drops_total counter",
                          R"(x_drops_total{interface="ib0",reason="too_big"} 3)",
                          R"(x_drops_total{interface="ib0",reason="odd"} 4)"));
}

TEST(Families, ValuesOfLabelsAreEscaped) {
  Families families;
  families.gauge("x", "X.", {{"name", "a\"b\\c\nd"}}, 0);
  EXPECT_EQ(lines_of(families.text()).back(), R"(x{name="a\"b\\c\nd"} 0)");
}

TEST(Families, BucketsAreCumulativeAndInSeconds) {
  Families families;
  const std::array<std::uint64_t, 2> bounds{1'000'000, 2'500'000'000};
  const std::array<std::uint64_t, 3> counts{3, 0, 2};
  families.histogram("x_seconds", "X.", {{"i", "1"}}, bounds, counts, 1'500'000'000);
  EXPECT_THAT(lines_of(families.text()),
              ElementsAre("# HELP x_seconds X.", "# TYPE x_seconds histogram",
                          R"(x_seconds_count{i="1"} 5)", R"(x_seconds_sum{i="1"} 1.5)",
                          R"(x_seconds_bucket{i="1",le="0.001"} 3)",
                          R"(x_seconds_bucket{i="1",le="2.5"} 3)",
                          R"(x_seconds_bucket{i="1",le="+Inf"} 5)"));
}

TEST(Families, OneStateIsPresent) {
  constexpr std::array<std::string_view, 2> kStates{"up", "down"};
  Families families;
  families.states("x_state", "X.", {{"i", "1"}}, kStates, "down");
  families.states("x_state", "X.", {{"i", "2"}}, kStates, "odd");
  EXPECT_THAT(
      lines_of(families.text()),
      ElementsAre("# HELP x_state X.", "# TYPE x_state gauge", R"(x_state{i="1",state="up"} 0)",
                  R"(x_state{i="1",state="down"} 1)", R"(x_state{i="2",state="up"} 0)",
                  R"(x_state{i="2",state="down"} 0)", R"(x_state{i="2",state="odd"} 1)"));
}

}  // namespace
}  // namespace ipoib::metrics
