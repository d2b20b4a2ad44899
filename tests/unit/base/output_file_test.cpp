#include "ipoib/output_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

namespace ipoib {
namespace {

constexpr uid_t kStranger = 65534;

class OutputFileTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] int refusal(const std::string& name) const {
    const auto file = open_output_file(folder_ + "/" + name, 0, 0644);
    return file ? 0 : file.error().code;
  }
  void make_public() const { ASSERT_EQ(::chmod(folder_.c_str(), 01777), 0); }
  void write(const std::string& name) const { std::ofstream(folder_ + "/" + name) << "text"; }

  std::string folder_ = ::testing::TempDir() + "output-XXXXXX";
};

TEST_F(OutputFileTest, CreatesAndOpens) {
  EXPECT_EQ(refusal("new"), 0);
  EXPECT_EQ(refusal("new"), 0);
  make_public();
  EXPECT_EQ(refusal("new"), 0);
  EXPECT_EQ(refusal("another"), 0);
  EXPECT_EQ(refusal("none/file"), ENOENT);
}

TEST_F(OutputFileTest, AppendsOnlyWithThatFlag) {
  write("file");
  const auto path = folder_ + "/file";
  const auto file = open_output_file(path, O_APPEND, 0644);
  ASSERT_TRUE(file);
  ASSERT_EQ(::write(file->get(), "more", 4), 4);
  EXPECT_EQ(std::filesystem::file_size(path), 8U);
}

TEST_F(OutputFileTest, NeverFollowsASymbolicLink) {
  write("target");
  std::filesystem::create_symlink(folder_ + "/target", folder_ + "/link");
  std::filesystem::create_symlink(folder_ + "/absent", folder_ + "/dangling");
  EXPECT_EQ(refusal("link"), ELOOP);
  EXPECT_EQ(refusal("dangling"), ELOOP);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/absent"));
}

TEST_F(OutputFileTest, InAPublicFolderAHardLinkIsRefused) {
  write("target");
  std::filesystem::create_hard_link(folder_ + "/target", folder_ + "/link");
  EXPECT_EQ(refusal("link"), 0) << "only this user can have made it";
  make_public();
  EXPECT_EQ(refusal("link"), EPERM);
}

TEST_F(OutputFileTest, InAPublicFolderAnothersFileIsRefused) {
  write("file");
  if (::chown((folder_ + "/file").c_str(), kStranger, kStranger) != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::chmod((folder_ + "/file").c_str(), 0666), 0);
  EXPECT_EQ(refusal("file"), 0);
  make_public();
  // Linux may refuse it already, see protected_regular in proc(5).
  EXPECT_TRUE(refusal("file") == EPERM || refusal("file") == EACCES);
}

TEST_F(OutputFileTest, APublicFolderOfAnotherUserIsRefused) {
  make_public();
  if (::chown(folder_.c_str(), kStranger, kStranger) != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(refusal("file"), EPERM);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/file"));
}

}  // namespace
}  // namespace ipoib
