#include "ipoib/unix_path.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

namespace ipoib {
namespace {

using testing::HasSubstr;

/// A folder whose own path fits no address.
class UnixPathTest : public testing::Test {
 protected:
  UnixPathTest() : folder_(root_.string() + "/" + std::string(120, 'f')) {
    std::filesystem::create_directories(folder_);
  }
  ~UnixPathTest() override { std::filesystem::remove_all(root_); }

  static bool binds(const UnixPath& to) {
    const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return ::bind(socket.get(), to.address(), UnixPath::size()) == 0;
  }

  const std::filesystem::path root_ = [] {
    std::string name = std::filesystem::temp_directory_path() / "unix_path_XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    return std::filesystem::path(name);
  }();
  const std::filesystem::path folder_;
};

TEST_F(UnixPathTest, ALongPathNamesTheSameFile) {
  const auto path = UnixPath::of(folder_ / "socket");
  ASSERT_TRUE(path);
  EXPECT_TRUE(binds(*path));
  EXPECT_TRUE(std::filesystem::is_socket(folder_ / "socket"));
}

TEST_F(UnixPathTest, ALongNameIsNotCut) {
  const std::string longest(UnixPath::kLongestName, 'n');
  const auto path = UnixPath::of(folder_ / longest);
  ASSERT_TRUE(path);
  EXPECT_TRUE(binds(*path));
  EXPECT_TRUE(std::filesystem::is_socket(folder_ / longest));
  const auto refused = UnixPath::of(folder_ / (longest + "n"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENAMETOOLONG);
  EXPECT_THAT(refused.error().message, HasSubstr("n: the name of a socket may have 82 bytes"));
  EXPECT_EQ(UnixPath::of(std::string(200, 'n')).error().code, ENAMETOOLONG) << "without a folder";
}

TEST_F(UnixPathTest, ANameInAnOpenFolderIsNotCut) {
  const FileDescriptor folder(::open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string longest(UnixPath::kLongestName, 'n');
  const auto path = UnixPath::in(folder.get(), longest);
  ASSERT_TRUE(path);
  EXPECT_TRUE(binds(*path));
  EXPECT_TRUE(std::filesystem::is_socket(folder_ / longest));
  EXPECT_EQ(UnixPath::in(folder.get(), longest + "n").error().code, ENAMETOOLONG);
}

TEST_F(UnixPathTest, AMissingFolderIsNamed) {
  const auto path = UnixPath::of(folder_ / "missing" / "socket");
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, ENOENT);
  EXPECT_THAT(path.error().message, HasSubstr("missing"));
}

}  // namespace
}  // namespace ipoib
