#include "ipoib/run_folder.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "ipoib/file_descriptor.hpp"

namespace ipoib {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(path_.data()), nullptr);
    ASSERT_EQ(::chmod(path_.c_str(), 0755), 0);
    system_ = path_ + "/system";
    ::setenv(kRunFolderVariable, (path_ + "/run").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv(kRunFolderVariable);
    ::unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(path_);
  }
  static mode_t mode_of(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }
  static uid_t owner_of(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? status.st_uid : 1;
  }

  std::string path_ = testing::TempDir() + "run-XXXXXX";
  std::string system_;  ///< stands for /run
};

TEST_F(RunFolderTest, LooksInTheSystemsAndInTheUsersFolder) {
  EXPECT_THAT(run_folders(system_), ElementsAre(path_ + "/run"));
  ::unsetenv(kRunFolderVariable);
  ::setenv("XDG_RUNTIME_DIR", path_.c_str(), 1);
  EXPECT_THAT(run_folders(system_), ElementsAre(system_ + "/ipoibd", path_ + "/ipoibd"));
  ::setenv("XDG_RUNTIME_DIR", (path_ + "/missing").c_str(), 1);
  EXPECT_THAT(run_folders(system_), ElementsAre(system_ + "/ipoibd"));
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_THAT(run_folders(system_), ElementsAre(system_ + "/ipoibd"));
}

TEST_F(RunFolderTest, LooksInTheFoldersOfOtherUsers) {
  ::unsetenv(kRunFolderVariable);
  for (const char* const name : {"ipoibd", "ipoibd.65534", "ipoibd.", "ipoibd.x1", "other.7"}) {
    std::filesystem::create_directories(system_ + "/" + name);
  }
  EXPECT_THAT(run_folders(system_), ElementsAre(system_ + "/ipoibd", system_ + "/ipoibd.65534"));
}

TEST_F(RunFolderTest, DoesNotTrustTheRuntimeFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ::unsetenv(kRunFolderVariable);
  ::setenv("XDG_RUNTIME_DIR", path_.c_str(), 1);
  ASSERT_EQ(::chown(path_.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(run_folders(system_), ElementsAre(system_ + "/ipoibd"));
}

TEST_F(RunFolderTest, IsOnlyWritableForItsOwnerWhateverTheUmask) {
  for (const mode_t mask : {0U, 0077U}) {
    std::filesystem::remove_all(path_ + "/run");
    const mode_t before = ::umask(mask);
    const auto run = open_run_folder();
    const auto below = open_folder(run.value(), "net-1");
    ::umask(before);
    EXPECT_EQ(below.value().path, path_ + "/run/net-1");
    EXPECT_EQ(mode_of(path_ + "/run"), 0755U);
    EXPECT_EQ(mode_of(path_ + "/run/net-1"), 0755U);
  }
}

TEST_F(RunFolderTest, RefusesAFolderThatOthersMayWriteTo) {
  for (const mode_t mode : {0775U, 0757U, 01777U}) {
    ASSERT_TRUE(open_run_folder());
    ASSERT_EQ(::chmod((path_ + "/run").c_str(), mode), 0);
    EXPECT_EQ(open_run_folder().error().code, EPERM) << mode;
    EXPECT_THAT(open_run_folder().error().message, HasSubstr("chmod go-w"));
    std::filesystem::remove(path_ + "/run");
  }
  const auto run = open_run_folder();
  ASSERT_TRUE(open_folder(*run, "net-1"));
  ASSERT_EQ(::chmod((path_ + "/run/net-1").c_str(), 0777), 0);
  EXPECT_EQ(open_folder(*run, "net-1").error().code, EPERM);
}

TEST_F(RunFolderTest, FollowsNoSymbolicLink) {
  std::filesystem::create_directory(path_ + "/elsewhere");
  std::filesystem::create_symlink("elsewhere", path_ + "/run");
  EXPECT_EQ(open_run_folder().error().code, EPERM);
  std::filesystem::remove(path_ + "/run");
  const auto run = open_run_folder();
  std::filesystem::create_symlink("../elsewhere", path_ + "/run/net-1");
  EXPECT_EQ(open_folder(*run, "net-1").error().code, EPERM);
  { std::ofstream(path_ + "/run/file"); }
  EXPECT_EQ(open_folder(*run, "file").error().code, EPERM);
}

TEST_F(RunFolderTest, WithoutDescriptorsNoOtherFolderIsAdvised) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{static_cast<rlim_t>(FileDescriptor(::dup(0)).get()), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto run = open_run_folder();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(run.has_error());
  EXPECT_EQ(run.error().code, EMFILE);
  EXPECT_THAT(run.error().message, ::testing::Not(HasSubstr("IPOIBD_DIR")));
}

TEST_F(RunFolderTest, RefusesTheFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(open_run_folder());
  ASSERT_EQ(::chown((path_ + "/run").c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(open_run_folder().error().code, EPERM);
  ASSERT_EQ(::chown((path_ + "/run").c_str(), 0, 0), 0);
  ASSERT_EQ(::seteuid(kNobody), 0);
  EXPECT_EQ(open_run_folder().error().code, EACCES) << "may not create anything there";
  ASSERT_EQ(::seteuid(0), 0);
}

TEST_F(RunFolderTest, ReportsThatTheFolderAboveHasGone) {
  const auto run = open_run_folder();
  std::filesystem::remove(path_ + "/run");
  EXPECT_EQ(open_folder(*run, "net-1").error().code, ENOENT);
}

TEST_F(RunFolderTest, AUserThatGetsTheFolderCanWorkInIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  {
    const auto run = open_run_folder();
    ASSERT_TRUE(open_folder(open_folder(*run, "net-1").value(), "ib0"));
  }
  { std::ofstream(path_ + "/secret"); }
  { std::ofstream(path_ + "/run/net-1/ib0/lock"); }
  std::filesystem::create_symlink(path_ + "/secret", path_ + "/run/link");
  std::filesystem::create_hard_link(path_ + "/secret", path_ + "/run/hard-link");
  ASSERT_TRUE(give_run_folder(kNobody, [](const Folder&) { return true; }));
  for (const char* const name : {"/run", "/run/net-1", "/run/net-1/ib0", "/run/net-1/ib0/lock"}) {
    EXPECT_EQ(owner_of(path_ + name), kNobody) << name;
  }
  EXPECT_EQ(owner_of(path_ + "/secret"), 0U);
  ASSERT_EQ(::seteuid(kNobody), 0);
  const auto run = open_run_folder();
  EXPECT_TRUE(run && open_folder(*run, "net-2"));
  ASSERT_EQ(::seteuid(0), 0);
}

}  // namespace
}  // namespace ipoib
