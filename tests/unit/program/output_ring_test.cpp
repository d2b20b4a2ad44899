#include "program/output_ring.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace ipoib::program {
namespace {

namespace fs = std::filesystem;

class OutputRingTest : public ::testing::Test {
 protected:
  OutputRingTest() {
    std::string pattern = ::testing::TempDir() + "ring-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~OutputRingTest() override { fs::remove_all(folder); }

  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(folder / name);
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
  }
  [[nodiscard]] OutputRing open(const OutputRing::Limits& limits) const {
    return OutputRing::open(folder / "out", kHeader, limits).value();
  }
  static std::vector<std::uint8_t> record(char letter, std::size_t size) {
    return std::vector<std::uint8_t>(size, static_cast<std::uint8_t>(letter));
  }

  static constexpr std::array<std::uint8_t, 2> kHeader{'H', ':'};
  fs::path folder;
};

TEST_F(OutputRingTest, BeginsWithTheHeaderAndEmptiesAnOldFile) {
  std::ofstream(folder / "out") << "something that was there before";
  auto ring = open({});
  EXPECT_EQ(content("out"), "H:") << "at once, for those who read while it grows";
  ASSERT_TRUE(ring.add(record('a', 3)).value());
  EXPECT_EQ(content("out"), "H:") << "records wait";
  ASSERT_TRUE(ring.flush());
  EXPECT_EQ(content("out"), "H:aaa");
}

TEST_F(OutputRingTest, OnlyTheOwnerMayReadIt) {
  const auto ring = open({});
  EXPECT_EQ(static_cast<unsigned>(fs::status(folder / "out").permissions()), 0600U);
}

TEST_F(OutputRingTest, ASingleFileEndsBeforeItsLimit) {
  auto ring = open({.file_size = 10, .files = 1});
  EXPECT_TRUE(ring.add(record('a', 4)).value());
  EXPECT_TRUE(ring.add(record('b', 4)).value()) << "exactly at the limit";
  EXPECT_FALSE(ring.add(record('c', 1)).value());
  EXPECT_EQ(content("out"), "H:aaaabbbb");
}

TEST_F(OutputRingTest, TheOldestFileOfARingIsReplaced) {
  auto ring = open({.file_size = 6, .files = 3});
  for (const char letter : {'a', 'b', 'c', 'd'}) ASSERT_TRUE(ring.add(record(letter, 4)).value());
  ASSERT_TRUE(ring.flush());
  EXPECT_EQ(content("out0"), "H:dddd");
  EXPECT_EQ(content("out1"), "H:bbbb");
  EXPECT_EQ(content("out2"), "H:cccc");
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST_F(OutputRingTest, NumbersHaveEquallyManyDigits) {
  auto ring = open({.file_size = 3, .files = 11});
  for (int i = 0; i < 11; ++i) ASSERT_TRUE(ring.add(record('a', 1)).value());
  ASSERT_TRUE(ring.flush());
  EXPECT_TRUE(fs::exists(folder / "out00"));
  EXPECT_TRUE(fs::exists(folder / "out10"));
}

TEST_F(OutputRingTest, ARecordBeyondTheLimitHasAFileOfItsOwn) {
  auto ring = open({.file_size = 6, .files = 2});
  ASSERT_TRUE(ring.add(record('a', 100)).value());
  ASSERT_TRUE(ring.add(record('b', 100)).value());
  ASSERT_TRUE(ring.flush());
  EXPECT_EQ(content("out1").size(), 102U);
}

TEST_F(OutputRingTest, WritesManyRecordsBeforeItIsAsked) {
  auto ring = open({});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ring.add(record('a', 1000)).value());
  EXPECT_GT(content("out").size(), 64'000U) << "what waits is bounded";
}

TEST_F(OutputRingTest, SaysWhichFileCannotBeWritten) {
  const auto ring = OutputRing::open(folder / "missing" / "out", kHeader, {});
  ASSERT_FALSE(ring);
  EXPECT_EQ(ring.error().code, ENOENT);
  EXPECT_NE(ring.error().message.find("missing/out"), std::string::npos);
  auto full = OutputRing::open("/dev/full", kHeader, {});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ENOSPC);
}

}  // namespace
}  // namespace ipoib::program
