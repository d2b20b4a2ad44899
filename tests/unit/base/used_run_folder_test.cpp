#include "ipoib/used_run_folder.hpp"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace ipoib {
namespace {

class UsedRunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(path_.data()), nullptr);
    ASSERT_EQ(::chmod(path_.c_str(), 0755), 0);
    ::setenv(kRunFolderVariable, run_folder().c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv(kRunFolderVariable);
    std::filesystem::remove_all(path_);
  }
  [[nodiscard]] std::string run_folder() const { return path_ + "/run"; }
  [[nodiscard]] bool exists() const { return std::filesystem::exists(run_folder()); }
  static std::optional<UsedRunFolder> take(RemovalRights rights = RemovalRights::stay) {
    return UsedRunFolder::take([] { return open_run_folder(); }, rights);
  }

  std::string path_ = testing::TempDir() + "run-XXXXXX";
};

TEST_F(UsedRunFolderTest, IsRemovedAtTheEnd) {
  for (const auto rights : {RemovalRights::stay, RemovalRights::are_given_up}) {
    auto used = take(rights);
    ASSERT_TRUE(used);
    ASSERT_TRUE(open_folder(open_run_folder().value(), "members"));
    EXPECT_TRUE(exists());
    used.reset();
    EXPECT_FALSE(exists());
  }
}

TEST_F(UsedRunFolderTest, StaysIfItIsNotEmpty) {
  for (const auto rights : {RemovalRights::stay, RemovalRights::are_given_up}) {
    {
      const auto used = take(rights);
      ASSERT_TRUE(open_folder(open_run_folder().value(), "net-1"));
    }
    EXPECT_TRUE(std::filesystem::exists(run_folder() + "/net-1"));
  }
}

TEST_F(UsedRunFolderTest, StaysWhileAnotherDaemonUsesIt) {
  for (const auto rights : {RemovalRights::stay, RemovalRights::are_given_up}) {
    auto first = take(rights);
    auto second = take(rights);
    first.reset();
    EXPECT_TRUE(exists());
    second.reset();
    EXPECT_FALSE(exists());
  }
}

TEST_F(UsedRunFolderTest, IsRemovedAfterTheRightsWereGivenUp) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr uid_t kOther = 65534;
  const auto give = [] { return give_run_folder(kOther, [](const Folder&) { return false; }); };
  auto used = UsedRunFolder::take(give, RemovalRights::are_given_up);
  ASSERT_TRUE(used);
  ASSERT_EQ(::seteuid(kOther), 0);
  ASSERT_TRUE(open_folder(open_run_folder().value(), "members"));
  EXPECT_NE(::rmdir(run_folder().c_str()), 0);
  used.reset();
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_FALSE(exists());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
}

TEST_F(UsedRunFolderTest, IsOpenedAgainIfItIsRemovedBeforeItIsLocked) {
  int opened = 0;
  const auto used = UsedRunFolder::take(
      [&] {
        auto folder = open_run_folder();
        if (++opened == 1) std::filesystem::remove(run_folder());
        return folder;
      },
      RemovalRights::stay);
  EXPECT_TRUE(used);
  EXPECT_EQ(opened, 2);
  EXPECT_TRUE(exists());
}

TEST_F(UsedRunFolderTest, IsOpenedAgainIfAnotherProcessIsRemovingIt) {
  FileDescriptor removing;
  int opened = 0;
  const auto used = UsedRunFolder::take(
      [&] {
        auto folder = open_run_folder();
        removing.reset();
        if (++opened > 1) return folder;
        removing = std::move(open_run_folder().value().fd);
        EXPECT_EQ(::flock(removing.get(), LOCK_EX | LOCK_NB), 0);
        return folder;
      },
      RemovalRights::stay);
  EXPECT_TRUE(used);
  EXPECT_EQ(opened, 2);
}

TEST_F(UsedRunFolderTest, IsNoneIfItCannotBeOpened) {
  EXPECT_FALSE(UsedRunFolder::take([]() -> Result<Folder> { return Error(EACCES, ""); },
                                   RemovalRights::stay));
}

}  // namespace
}  // namespace ipoib
