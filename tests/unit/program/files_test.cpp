#include "program/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace ipoib::program {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Files : public testing::Test {
 protected:
  Files() {
    std::string name = fs::temp_directory_path() / "files-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~Files() override { fs::remove_all(folder_); }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(Files, IsReplacedAndReadableByAll) {
  const mode_t mask = ::umask(077);
  const fs::path path = folder_ / "ib.prom";
  EXPECT_TRUE(replace_file(path, "one\n").has_value());
  EXPECT_TRUE(replace_file(path, std::string(1 << 20, 'x')).has_value());
  ::umask(mask);
  EXPECT_EQ(contents(path), std::string(1 << 20, 'x'));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms{0644});
  EXPECT_EQ(files(), 1U) << "no temporary file is left";
}

/// A reader that has the old file open goes on reading it.
TEST_F(Files, IsNotWrittenInPlace) {
  const fs::path path = folder_ / "ib.prom";
  ASSERT_TRUE(replace_file(path, "old").has_value());
  std::ifstream reader(path);
  ASSERT_TRUE(replace_file(path, "new").has_value());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old");
  EXPECT_EQ(contents(path), "new");
}

TEST_F(Files, ALinkIsReplacedNotFollowed) {
  const fs::path secret = folder_ / "secret";
  std::ofstream(secret) << "kept";
  const fs::path path = folder_ / "ib.prom";
  fs::create_symlink(secret, path);
  EXPECT_TRUE(replace_file(path, "metrics").has_value());
  EXPECT_EQ(contents(secret), "kept");
  EXPECT_EQ(contents(path), "metrics");
  EXPECT_FALSE(fs::is_symlink(path));
}

TEST_F(Files, ADeviceOrPipeIsNotReplaced) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const fs::path link = folder_ / "link";
  fs::create_symlink("/dev/null", link);
  for (const auto& path : {pipe, link}) {
    const auto written = replace_file(path, "metrics");
    ASSERT_TRUE(written.has_error()) << path;
    EXPECT_EQ(written.error().message.find(path.string() + ": is a device or a pipe"), 0U);
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(files(), 2U);
}

TEST_F(Files, AFailureLeavesNothingBehind) {
  const fs::path path = folder_ / "ib.prom";
  fs::create_directory(path);
  std::ofstream(path / "x") << "x";
  const auto written = replace_file(path, "metrics");
  ASSERT_TRUE(written.has_error());
  EXPECT_NE(written.error().message.find(path.string()), std::string::npos);
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(replace_file(folder_ / "none" / "x", "").error().code, ENOENT);
  EXPECT_EQ(replace_file("", "").error().code, ENOENT);
}

TEST_F(Files, APrivateFileIsNewAndForItsOwner) {
  const fs::path path = folder_ / "report";
  const mode_t mask = ::umask(0);
  EXPECT_TRUE(create_private_file(path, "text").has_value());
  ::umask(mask);
  EXPECT_EQ(contents(path), "text");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms{0600});
  EXPECT_EQ(create_private_file(path, "other").error().code, EEXIST);
  fs::create_symlink(folder_ / "elsewhere", folder_ / "link");
  EXPECT_EQ(create_private_file(folder_ / "link", "other").error().code, EEXIST);
  EXPECT_EQ(contents(path), "text");
}

}  // namespace
}  // namespace ipoib::program
