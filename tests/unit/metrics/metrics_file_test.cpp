#include "metrics/metrics_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace ipoib::metrics {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class MetricsFile : public testing::Test {
 protected:
  MetricsFile() {
    std::string name = fs::temp_directory_path() / "metrics-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~MetricsFile() override { fs::remove_all(folder_); }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(MetricsFile, IsReplacedAndReadableByAll) {
  const mode_t mask = ::umask(077);
  const fs::path path = folder_ / "ib.prom";
  EXPECT_TRUE(write_metrics_file(path, "one\n").has_value());
  EXPECT_TRUE(write_metrics_file(path, std::string(1 << 20, 'x')).has_value());
  ::umask(mask);
  EXPECT_EQ(contents(path), std::string(1 << 20, 'x'));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms{0644});
  EXPECT_EQ(files(), 1U) << "no temporary file is left";
}

/// A reader that has the old file open goes on reading it.
TEST_F(MetricsFile, IsNotWrittenInPlace) {
  const fs::path path = folder_ / "ib.prom";
  ASSERT_TRUE(write_metrics_file(path, "old").has_value());
  std::ifstream reader(path);
  ASSERT_TRUE(write_metrics_file(path, "new").has_value());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old");
  EXPECT_EQ(contents(path), "new");
}

TEST_F(MetricsFile, ALinkIsReplacedNotFollowed) {
  const fs::path secret = folder_ / "secret";
  std::ofstream(secret) << "kept";
  const fs::path path = folder_ / "ib.prom";
  fs::create_symlink(secret, path);
  EXPECT_TRUE(write_metrics_file(path, "metrics").has_value());
  EXPECT_EQ(contents(secret), "kept");
  EXPECT_EQ(contents(path), "metrics");
  EXPECT_FALSE(fs::is_symlink(path));
}

TEST_F(MetricsFile, AFailureLeavesNothingBehind) {
  const fs::path path = folder_ / "ib.prom";
  fs::create_directory(path);
  std::ofstream(path / "x") << "x";
  const auto written = write_metrics_file(path, "metrics");
  ASSERT_TRUE(written.has_error());
  EXPECT_NE(written.error().message.find(path.string()), std::string::npos);
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(write_metrics_file(folder_ / "none" / "x", "").error().code, ENOENT);
  EXPECT_EQ(write_metrics_file("", "").error().code, ENOENT);
}

}  // namespace
}  // namespace ipoib::metrics
