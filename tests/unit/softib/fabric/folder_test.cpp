#include "softib/fabric/folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ipoib/file_descriptor.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/fabric/subnet_lock.hpp"
#include "temporary_folder.hpp"

namespace softib::fabric {
namespace {

using test::TemporaryFolder;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

/// Sets an environment variable for its lifetime; a null value unsets it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = ::getenv(name)) before_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

TEST(SubnetFolder, IsNamedByTheEnvironment) {
  const Environment directory(kDirectoryVariable, "/somewhere");
  const Environment none(kSubnetVariable, nullptr);
  EXPECT_EQ(SubnetFolder::from_environment()->path(), "/somewhere/default");
  const Environment named(kSubnetVariable, "red");
  EXPECT_EQ(SubnetFolder::from_environment()->path(), "/somewhere/red");
  EXPECT_EQ(SubnetFolder::from_environment()->name(), "red");
  const Environment bad(kSubnetVariable, "../red");
  EXPECT_FALSE(SubnetFolder::from_environment());
}

TEST(SubnetFolder, DefaultsDependOnTheUser) {
  const Environment none(kDirectoryVariable, nullptr);
  const Environment runtime("XDG_RUNTIME_DIR", "/run/user/7");
  const auto directory = softib_directory();
  ASSERT_TRUE(directory);
  EXPECT_EQ(*directory, ::geteuid() == 0 ? "/run/softib" : "/run/user/7/softib");
  if (::geteuid() == 0) return;
  const TemporaryFolder root;
  const Environment unset("XDG_RUNTIME_DIR", nullptr);
  const Environment temporary("TMPDIR", (root / "").c_str());
  const auto own = softib_directory();
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(*own, root / ("softib-" + std::to_string(::geteuid())));
  EXPECT_FALSE(std::filesystem::exists(*own)) << "to ask for it leaves nothing";
  const auto folder = SubnetFolder::of("red");
  ASSERT_TRUE(folder && folder->create());
  EXPECT_EQ(mode_of(*own), mode_t{0700});
  ::chmod(own->c_str(), 0755);
  EXPECT_FALSE(softib_directory()) << "others may enter it";
  EXPECT_FALSE(folder->create());
}

TEST(SubnetFolder, RestrictsAccessToTheFolderButNotToItsFiles) {
  const TemporaryFolder root;
  const mode_t before = ::umask(077);
  const SubnetFolder folder(root / "deep/down/red");
  ASSERT_TRUE(folder.create());
  ASSERT_TRUE(folder.create());
  ASSERT_TRUE(folder.create_node(5));
  ::umask(before);
  EXPECT_EQ(mode_of(root / "deep"), mode_t{0755});
  EXPECT_EQ(mode_of(folder.path()), mode_t{0700});
  EXPECT_EQ(mode_of(folder.node(5)), mode_t{0777});
  EXPECT_EQ(folder.slot_socket(5, 63), folder.path() + "/node/5/63");
  EXPECT_EQ(slot_lock_name(63), "63.lock");
}

TEST(SubnetFolder, KeepsAWiderMode) {
  const TemporaryFolder root;
  const SubnetFolder folder(root / "red");
  ASSERT_TRUE(folder.create());
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  ASSERT_TRUE(folder.create());
  EXPECT_EQ(mode_of(folder.path()), mode_t{0755});
}

TEST(SubnetFolder, FailsWhereAFileExists) {
  const TemporaryFolder root;
  std::ofstream(root / "red") << "x";
  const auto made = SubnetFolder(root / "red").create();
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, testing::HasSubstr(root / "red"));
}

std::string refusal(const SubnetFolder& folder, FolderUse use) {
  const auto checked = folder.check(use);
  return checked ? "" : checked.error().message;
}

TEST(SubnetFolder, IsNotUsedIfOthersMayWriteToIt) {
  const TemporaryFolder root;
  const SubnetFolder folder(root / "red");
  EXPECT_EQ(folder.check(FolderUse::attach).error().code, ENOENT);
  ASSERT_TRUE(folder.create());
  for (const mode_t mode : {0770, 0707, 01777}) {
    ASSERT_EQ(::chmod(folder.path().c_str(), mode), 0);
    EXPECT_THAT(refusal(folder, FolderUse::attach), testing::HasSubstr("may write to it")) << mode;
    EXPECT_EQ(folder.check(FolderUse::serve).error().code, EPERM);
    EXPECT_FALSE(folder.create());
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  EXPECT_TRUE(folder.check(FolderUse::attach)) << "others may attach";
}

TEST(SubnetFolder, IsNotUsedIfItIsALink) {
  const TemporaryFolder root;
  const SubnetFolder folder(root / "red");
  ASSERT_TRUE(folder.create());
  const SubnetFolder link(root / "link");
  std::filesystem::create_directory_symlink(folder.path(), link.path());
  EXPECT_THAT(refusal(link, FolderUse::attach), testing::HasSubstr("symbolic link"));
  const auto created = link.create();
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().message, testing::HasSubstr("symbolic link"));
}

TEST(SubnetFolder, OfAnotherUserIsNotServed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder away";
  const TemporaryFolder root;
  const SubnetFolder folder(root / "red");
  ASSERT_TRUE(folder.create());
  if (::chown(folder.path().c_str(), 1, 1) != 0) GTEST_SKIP() << "there is only one user";
  EXPECT_THAT(refusal(folder, FolderUse::serve), testing::HasSubstr("belongs to user 1"));
  EXPECT_FALSE(folder.create());
  EXPECT_EQ(refusal(folder, FolderUse::attach), "") << "root may use any user's subnet";
  // Another user than root may not.
  ASSERT_EQ(::chmod((root / "").c_str(), 0755), 0);
  ASSERT_EQ(::seteuid(2), 0);
  const auto refused = refusal(folder, FolderUse::attach);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_THAT(refused, testing::HasSubstr("belongs to user 1"));
}

TEST(SubnetFolder, RemovesEverythingOfANode) {
  const TemporaryFolder root;
  const SubnetFolder folder(root / "red");
  ASSERT_TRUE(folder.create());
  ASSERT_TRUE(folder.create_node(5));
  for (const auto& name :
       {slot_name(0), slot_lock_name(0), slot_wakeup_name(0), slot_name(63), slot_lock_name(63),
        slot_wakeup_name(63), std::string(kAgentsName), std::string(kIssmName)}) {
    std::ofstream(folder.node(5) + "/" + name) << "x";
  }
  folder.remove_node(5);
  EXPECT_FALSE(std::filesystem::exists(folder.node(5)));
}

TEST(SubnetFolder, HasEndedUntilItIsServedAgain) {
  const TemporaryFolder root;
  const SubnetFolder folder(root / "red");
  folder.mark_ended(true);
  EXPECT_FALSE(folder.is_ended()) << "there is none";
  ASSERT_TRUE(folder.create());
  EXPECT_FALSE(folder.is_ended());
  folder.mark_ended(true);
  EXPECT_TRUE(folder.is_ended());
  folder.mark_ended(false);
  EXPECT_FALSE(folder.is_ended());
}

TEST(SubnetFolder, RunsWhileItsLockIsHeld) {
  const TemporaryFolder root;
  const SubnetFolder folder(root / "red");
  ASSERT_TRUE(folder.create());
  EXPECT_FALSE(folder.is_running());
  ipoib::FileDescriptor lock(::open(folder.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  EXPECT_FALSE(folder.is_running());
  ASSERT_TRUE(try_lock(lock.get(), 0));
  EXPECT_TRUE(folder.is_running());
  lock.reset();
  EXPECT_FALSE(folder.is_running());
}

TEST(SubnetFolder, IsHeldOnlyWhileNobodyElseHasTheLock) {
  const test::TemporaryFolder root;
  const SubnetFolder folder{root / "red"};
  ASSERT_TRUE(folder.create());
  const auto other = open_shared(folder.lock(), IfMissing::create).value();
  ASSERT_TRUE(try_lock(other.get(), 1)) << "that of holders";
  EXPECT_EQ(hold_subnet(folder).error().message,
            "cannot lock " + folder.lock() +
                ": Resource temporarily unavailable; lslocks shows which "
                "process keeps it locked");
}

TEST(FileLock, IsExclusivePerByte) {
  const TemporaryFolder root;
  const std::string path = root / "file";
  ipoib::FileDescriptor one(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  const ipoib::FileDescriptor other(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(try_lock(one.get(), 7));
  EXPECT_FALSE(try_lock(other.get(), 7));
  EXPECT_TRUE(try_lock(other.get(), 8));
  EXPECT_TRUE(is_locked(other.get(), 7));
  one.reset();
  EXPECT_FALSE(is_locked(other.get(), 7));
  EXPECT_TRUE(try_lock(other.get(), 7));
}

TEST(FileLock, TheHolderIsAllThatTheFileHolds) {
  const TemporaryFolder root;
  const std::string path = root / "file";
  std::ofstream(path) << "99999999999\n";
  const ipoib::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(write_holder(file.get()));
  EXPECT_EQ(read_holder(file.get()), ::getpid());
  EXPECT_EQ(std::filesystem::file_size(path), std::to_string(::getpid()).size() + 1);
}

TEST(FileLock, AFileWithoutANumberHasNoHolder) {
  const TemporaryFolder root;
  const std::string path = root / "file";
  std::ofstream(path) << "x";
  const ipoib::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(read_holder(file.get()), 0);
}

TEST(HcaName, ParsesNameAndPort) {
  EXPECT_EQ(HcaName::parse("a").value().name, "a");
  EXPECT_EQ(HcaName::parse("a").value().port, 0);
  EXPECT_EQ(HcaName::parse("a:2").value().name, "a");
  EXPECT_EQ(HcaName::parse("a:2").value().port, 2);
  for (const auto* wrong : {"", ":1", "a:", "a:0", "a:3", "a:12", "a:x", "a/b", "a:1:1"}) {
    EXPECT_FALSE(HcaName::parse(wrong)) << wrong;
  }
}

TEST(ParseHcas, TakesEachOnce) {
  EXPECT_EQ(parse_hcas("a").value(), std::vector<std::string>{"a"});
  EXPECT_EQ(parse_hcas("a:2,b,c,d").value(), (std::vector<std::string>{"a:2", "b", "c", "d"}));
  for (const auto* wrong : {"", ",", "a,", ",a", "a,,b", "a,a", "a,b,a:2", "a,b,c,d,e"}) {
    EXPECT_FALSE(parse_hcas(wrong)) << wrong;
  }
}

TEST(HcaOfDevice, CountsFromZero) {
  EXPECT_EQ(device_name(0), kDeviceName);
  EXPECT_EQ(hca_of_device(kDeviceName), 0);
  EXPECT_EQ(hca_of_device(device_name(kMaxProcessHcas - 1)), kMaxProcessHcas - 1);
  for (const auto* other : {"", "softib", "softib00", "softib4", "mlx5_0"}) {
    EXPECT_FALSE(hca_of_device(other)) << other;
  }
}

}  // namespace
}  // namespace softib::fabric
