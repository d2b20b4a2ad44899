#include "ipoib/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

namespace ipoib {
namespace {

using std::chrono::nanoseconds;

TimePoint at(std::int64_t count) { return TimePoint(nanoseconds(count)); }

/// The text that write_text() writes.
std::string text_of(const TraceRings& rings) {
  std::FILE* const file = std::tmpfile();
  rings.write_text(fileno(file));
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

TEST(TraceRing, ReadsWhatWasRecorded) {
  TraceRing ring("pump");
  EXPECT_STREQ(ring.thread(), "pump");
  EXPECT_EQ(ring.count(), 0U);
  TraceRecord record;
  EXPECT_FALSE(ring.read(0, record));

  ring.record("arp_request", at(7), 1, 2);
  ring.record("path_query", at(8));
  ASSERT_EQ(ring.count(), 2U);
  ASSERT_TRUE(ring.read(0, record));
  EXPECT_EQ(record.sequence, 0U);
  EXPECT_STREQ(record.keyword, "arp_request");
  EXPECT_EQ(record.when, at(7));
  EXPECT_EQ(record.first, 1U);
  EXPECT_EQ(record.second, 2U);
  ASSERT_TRUE(ring.read(1, record));
  EXPECT_STREQ(record.keyword, "path_query");
  EXPECT_EQ(record.first, 0U);
  EXPECT_FALSE(ring.read(2, record));
}

TEST(TraceRing, KeepsTheNewestRecords) {
  TraceRing ring("pump");
  constexpr std::uint64_t kWritten = TraceRing::kRecords + 10;
  for (std::uint64_t i = 0; i < kWritten; ++i) ring.record("turn", at(0), i);
  TraceRecord record;
  EXPECT_FALSE(ring.read(kWritten - TraceRing::kRecords, record)) << "may be being overwritten";
  ASSERT_TRUE(ring.read(kWritten - TraceRing::kRecords + 1, record));
  EXPECT_EQ(record.first, kWritten - TraceRing::kRecords + 1);
  ASSERT_TRUE(ring.read(kWritten - 1, record));
  EXPECT_EQ(record.first, kWritten - 1);
}

TEST(TraceRing, TruncatesALongThreadName) {
  const TraceRing ring(std::string(100, 'x'));
  EXPECT_EQ(std::string(ring.thread()), std::string(TraceRing::kMaxName, 'x'));
}

TEST(TraceRing, ReaderSeesOnlyCompleteRecords) {
  TraceRing ring("writer");
  std::thread writer([&ring] {
    for (std::uint64_t i = 0; i < 50 * TraceRing::kRecords; ++i) {
      ring.record(i % 2 == 0 ? TraceKeyword("even") : TraceKeyword("odd"),
                  at(static_cast<std::int64_t>(i)), i, ~i);
    }
  });
  std::uint64_t complete = 0;
  while (ring.count() < 50 * TraceRing::kRecords) {
    const std::uint64_t end = ring.count();
    const std::uint64_t begin = end < TraceRing::kRecords ? 0 : end - TraceRing::kRecords;
    for (std::uint64_t i = begin; i < end; ++i) {
      TraceRecord record;
      if (!ring.read(i, record)) continue;
      ++complete;
      ASSERT_EQ(record.first, i);
      ASSERT_EQ(record.second, ~i);
      ASSERT_EQ(record.when, at(static_cast<std::int64_t>(i)));
      ASSERT_STREQ(record.keyword, i % 2 == 0 ? "even" : "odd");
    }
  }
  writer.join();
  for (std::uint64_t i = 49 * TraceRing::kRecords + 1; i < ring.count(); ++i) {
    TraceRecord record;
    ASSERT_TRUE(ring.read(i, record));
    ++complete;
  }
  EXPECT_GT(complete, 0U);
}

TEST(TraceRings, AreBounded) {
  TraceRings rings;
  for (std::size_t i = 0; i < TraceRings::kMax; ++i) (void)rings.add("thread");
  EXPECT_EQ(rings.size(), TraceRings::kMax);
  EXPECT_THROW((void)rings.add("one more"), std::length_error);
  EXPECT_EQ(rings.size(), TraceRings::kMax);
}

TEST(TraceRings, ReuseTheRingThatWasReleasedFirst) {
  TraceRings rings;
  TraceRing& first = rings.add("first");
  first.record("old", at(1), 1);
  while (rings.size() < TraceRings::kMax) rings.release(rings.add("other"));
  rings.release(first);
  TraceRing& reused = rings.add("reused");
  EXPECT_STREQ(reused.thread(), "reused");
  EXPECT_NE(&reused, &first) << "another ring was released before";
  for (std::size_t i = 2; i < TraceRings::kMax; ++i) (void)rings.add("another");
  ASSERT_EQ(&rings.add("last"), &first);
  TraceRecord record;
  EXPECT_FALSE(first.read(0, record)) << "the records of the previous thread cannot be read";
  first.record("new", at(2), 2);
  ASSERT_TRUE(first.read(1, record));
  EXPECT_EQ(record.first, 2U);
  EXPECT_EQ(rings.size(), TraceRings::kMax);
}

TEST(TraceRings, AreWrittenAsText) {
  TraceRings rings;
  TraceRing& control = rings.add("control");
  TraceRing& pump = rings.add("ib0");
  control.record("carrier", at(1'500'000'000), 1);
  pump.record("tx", at(12'000'000'345), 0xdeadbeef12345678, 0);
  pump.record("before", at(-1'000'000'002), ~std::uint64_t{0}, 0x10);
  EXPECT_EQ(text_of(rings),
            "trace control 1.500000000 carrier 0x1 0x0\n"
            "trace ib0 12.000000345 tx 0xdeadbeef12345678 0x0\n"
            "trace ib0 -1.000000002 before 0xffffffffffffffff 0x10\n");
}

TEST(TraceRings, TextHasAllReadableRecords) {
  TraceRings rings;
  TraceRing& ring = rings.add("t");
  for (std::uint64_t i = 0; i < 3 * TraceRing::kRecords; ++i) ring.record("turn", at(0), i);
  const std::string text = text_of(rings);
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            TraceRing::kRecords - 1);
  EXPECT_THAT(text, testing::EndsWith("trace t 0.000000000 turn 0x2fff 0x0\n"));
}

TEST(TraceRings, CanBeWrittenToAClosedDescriptor) {
  TraceRings rings;
  rings.add("t").record("turn", at(0));
  rings.write_text(-1);
}

}  // namespace
}  // namespace ipoib
