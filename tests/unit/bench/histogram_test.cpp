#include "bench/latency/histogram.hpp"

#include <gtest/gtest.h>

namespace ipoib::bench {
namespace {

using std::chrono::nanoseconds;

TEST(LatencyHistogram, EachBucketBeginsWhereTheOneBeforeEnds) {
  for (std::size_t at = 0; at < Histogram::kBuckets; ++at) {
    ASSERT_EQ(Histogram::bucket(Histogram::least(at)), at);
    if (at > 0) {
      ASSERT_EQ(Histogram::bucket(Histogram::least(at) - nanoseconds(1)), at - 1);
    }
  }
}

TEST(LatencyHistogram, BucketsAreNarrowEverywhere) {
  for (std::size_t at = Histogram::kSteps; at + 1 < Histogram::kBuckets; ++at) {
    const auto width = Histogram::least(at + 1) - Histogram::least(at);
    ASSERT_LE(width * Histogram::kSteps, Histogram::least(at));
  }
}

TEST(LatencyHistogram, ValuesOutOfRangeCountAtTheEnds) {
  EXPECT_EQ(Histogram::bucket(nanoseconds(-1)), 0u);
  EXPECT_EQ(Histogram::bucket(std::chrono::hours(1)), Histogram::kBuckets - 1);
}

TEST(LatencyHistogram, QuantilesAreThoseOfTheRecordedValues) {
  Histogram histogram;
  for (int i = 1; i <= 20; ++i) histogram.record(nanoseconds(i));
  EXPECT_EQ(histogram.total(), 20u);
  EXPECT_EQ(histogram.count(7), 1u);
  EXPECT_EQ(histogram.quantile(0), nanoseconds(1));
  EXPECT_EQ(histogram.quantile(0.1), nanoseconds(2));
  EXPECT_EQ(histogram.quantile(0.5), nanoseconds(10));
  EXPECT_EQ(histogram.quantile(0.9), nanoseconds(18));
  EXPECT_EQ(histogram.quantile(1), nanoseconds(20));
}

TEST(LatencyHistogram, QuantilesWithoutValuesAreZero) {
  EXPECT_EQ(Histogram().quantile(0.5), nanoseconds(0));
}

}  // namespace
}  // namespace ipoib::bench
