// Links and other files that a user plants in a subnet's folder must not redirect other users.
#include "softib/fabric/shared_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ipoib/unix_path.hpp"
#include "softib/fabric/folder.hpp"
#include "temporary_folder.hpp"
#include "tests/support/own_mounts.hpp"

namespace softib::fabric {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

class SharedFile : public testing::Test {
 protected:
  SharedFile() {
    std::ofstream(outside_) << "precious";
    fs::permissions(outside_, fs::perms(0600));
  }
  [[nodiscard]] int code_of(IfMissing if_missing) const {
    const auto file = open_shared(folder_.get(), "file", if_missing);
    return file ? 0 : file.error().code;
  }
  /// Why the file is not opened.
  [[nodiscard]] std::string refusal() const {
    return open_shared(folder_.get(), "file", IfMissing::fail).error().message;
  }
  [[nodiscard]] bool outside_is_untouched() const {
    return fs::file_size(outside_) == 8 && fs::status(outside_).permissions() == fs::perms(0600);
  }

  TemporaryFolder root_;
  TemporaryFolder elsewhere_;
  const std::string outside_ = elsewhere_ / "precious";
  const std::string inside_ = root_ / "file";
  const ipoib::FileDescriptor folder_ = open_folder(root_.path()).value();
};

TEST_F(SharedFile, IsCreatedForEverybodyWhateverTheUmask) {
  const mode_t before = ::umask(077);
  EXPECT_EQ(code_of(IfMissing::fail), ENOENT);
  EXPECT_EQ(code_of(IfMissing::create), 0);
  ::umask(before);
  EXPECT_EQ(fs::status(inside_).permissions(), fs::perms(0666));
}

TEST_F(SharedFile, KeepsTheModeOfAnExistingFile) {
  std::ofstream(inside_) << "x";
  fs::permissions(inside_, fs::perms(0600));
  EXPECT_EQ(code_of(IfMissing::create), 0);
  EXPECT_EQ(fs::status(inside_).permissions(), fs::perms(0600));
}

TEST_F(SharedFile, RefusesLinks) {
  fs::create_symlink(outside_, inside_);
  EXPECT_EQ(code_of(IfMissing::create), EPERM);
  EXPECT_EQ(refusal(), "file is a symbolic link, which softib does not follow: remove it");
  fs::remove(inside_);
  fs::create_symlink(elsewhere_ / "new", inside_);
  EXPECT_EQ(code_of(IfMissing::create), EPERM);
  EXPECT_FALSE(fs::exists(elsewhere_ / "new"));
  fs::remove(inside_);
  fs::create_hard_link(outside_, inside_);
  EXPECT_EQ(code_of(IfMissing::create), EPERM);
  EXPECT_EQ(refusal(), "file is not a regular file with a single link: remove it");
  EXPECT_TRUE(outside_is_untouched());
}

TEST_F(SharedFile, RefusesOtherFileTypes) {
  fs::create_directory(inside_);
  EXPECT_NE(code_of(IfMissing::create), 0);
  fs::remove(inside_);
  ASSERT_EQ(::mkfifo(inside_.c_str(), 0666), 0);
  EXPECT_EQ(code_of(IfMissing::create), EPERM);
}

/// A removed file that is mounted there is neither one to open nor one to replace.
TEST_F(SharedFile, IsRefusedIfItCanNeitherBeOpenedNorCreated) {
  std::ofstream(inside_) << "x";
  const bool has_mounts = ipoib::test::with_own_mounts([&] {
    ASSERT_EQ(::mount(outside_.c_str(), inside_.c_str(), nullptr, MS_BIND, nullptr), 0);
    ASSERT_TRUE(fs::remove(outside_));
    const auto file = open_shared(inside_, IfMissing::create);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, EBUSY);
    EXPECT_EQ(file.error().message, "file keeps being created and removed: try again");
  });
  if (!has_mounts) GTEST_SKIP() << "needs root, to mount";
}

TEST_F(SharedFile, IsNamedUntilItIsRenamed) {
  const auto file = open_shared(folder_.get(), "file", IfMissing::create).value();
  EXPECT_TRUE(is_named(file.get(), folder_.get(), "file"));
  fs::rename(inside_, root_ / "other");
  EXPECT_FALSE(is_named(file.get(), folder_.get(), "file"));
  fs::create_symlink(root_ / "other", inside_);
  EXPECT_FALSE(is_named(file.get(), folder_.get(), "file"));
}

TEST_F(SharedFile, APipeHasAReaderWhileItIsOpenForReading) {
  EXPECT_FALSE(has_reader(folder_.get(), "file")) << "there is none";
  ASSERT_TRUE(make_pipe(folder_.get(), "file"));
  ASSERT_TRUE(make_pipe(folder_.get(), "file")) << "it exists";
  EXPECT_EQ(fs::status(inside_).permissions(), fs::perms(0666));
  EXPECT_FALSE(has_reader(folder_.get(), "file"));
  {
    const ipoib::FileDescriptor reader(::open(inside_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    EXPECT_TRUE(has_reader(folder_.get(), "file"));
  }
  EXPECT_FALSE(has_reader(folder_.get(), "file"));
}

TEST_F(SharedFile, AnotherFileIsNoPipe) {
  std::ofstream(inside_) << "x";
  EXPECT_FALSE(make_pipe(folder_.get(), "file"));
  EXPECT_FALSE(has_reader(folder_.get(), "file"));
  fs::remove(inside_);
  ASSERT_EQ(::mkfifo((elsewhere_ / "pipe").c_str(), 0666), 0);
  fs::create_symlink(elsewhere_ / "pipe", inside_);
  EXPECT_FALSE(make_pipe(folder_.get(), "file")) << "a link is not followed";
}

/// A user who may write to the folder replaces the pipe by a link, again and again.
TEST_F(SharedFile, ThePipeThatGetsItsModeIsTheNewOne) {
  std::atomic<bool> is_over = false;
  std::thread attacker([&] {
    const std::string link = root_ / "link";
    while (!is_over) {
      (void)::symlink(outside_.c_str(), link.c_str());
      (void)::rename(link.c_str(), inside_.c_str());
    }
    ::unlink(link.c_str());
  });
  for (int attempt = 0; attempt < 5000 && outside_is_untouched(); ++attempt) {
    ::unlink(inside_.c_str());
    (void)make_pipe(folder_.get(), "file");
  }
  is_over = true;
  attacker.join();
  EXPECT_TRUE(outside_is_untouched());
}

/// Opening a file on which somebody has a lease waits until that is given back, or taken away after
/// 45 s.
TEST_F(SharedFile, ALeaseDelaysNobody) {
  EXPECT_EQ(code_of(IfMissing::create), 0);
  const auto before = std::signal(SIGIO, SIG_IGN);
  const ipoib::FileDescriptor leased(::open(inside_.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::fcntl(leased.get(), F_SETLEASE, F_RDLCK), 0) << std::strerror(errno);
  EXPECT_EQ(code_of(IfMissing::fail), EAGAIN);
  std::signal(SIGIO, before);
}

class SharedSocket : public SharedFile {
 protected:
  SharedSocket() {
    const auto path = ipoib::UnixPath::of(elsewhere_ / "socket").value();
    EXPECT_EQ(::bind(listener_.get(), path.address(), ipoib::UnixPath::size()), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    fs::permissions(elsewhere_ / "socket", fs::perms(0600));
  }
  [[nodiscard]] int code_of_connect() const {
    const ipoib::FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto opened = open_socket(folder_.get(), "file");
    return opened ? connect_socket(socket.get(), *opened) : opened.error().code;
  }

  const ipoib::FileDescriptor listener_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
};

TEST_F(SharedSocket, IsConnectedByItsNameInTheFolder) {
  EXPECT_EQ(code_of_connect(), ENOENT);
  fs::rename(elsewhere_ / "socket", inside_);
  EXPECT_EQ(code_of_connect(), 0);
  ASSERT_TRUE(open_socket_to_all(folder_.get(), "file"));
  EXPECT_EQ(fs::status(inside_).permissions(), fs::perms(0666));
}

TEST_F(SharedSocket, IsNotReachedThroughALink) {
  fs::create_symlink(elsewhere_ / "socket", inside_);
  EXPECT_EQ(code_of_connect(), EPERM);
  EXPECT_FALSE(open_socket_to_all(folder_.get(), "file"));
  fs::remove(inside_);
  ASSERT_EQ(::link((elsewhere_ / "socket").c_str(), inside_.c_str()), 0);
  EXPECT_EQ(code_of_connect(), EPERM);
  EXPECT_FALSE(open_socket_to_all(folder_.get(), "file"));
  EXPECT_EQ(fs::status(elsewhere_ / "socket").permissions(), fs::perms(0600));
  fs::remove(inside_);
  std::ofstream(inside_) << "x";
  EXPECT_EQ(code_of_connect(), EPERM) << "not a socket";
}

TEST_F(SharedFile, RefusesLinkedFolders) {
  const SubnetFolder folder(root_ / "red");
  fs::create_directory_symlink(elsewhere_.path(), folder.path());
  EXPECT_FALSE(folder.create());
  EXPECT_FALSE(fs::exists(elsewhere_ / "node"));
  fs::remove(folder.path());
  ASSERT_TRUE(folder.create());
  ASSERT_TRUE(folder.create_node(1));
  fs::remove(folder.node(1));
  fs::create_directory_symlink(elsewhere_.path(), folder.node(1));
  EXPECT_FALSE(folder.open_node(1));
  std::ofstream(elsewhere_ / kAgentsName) << "x";
  folder.remove_node(1);
  EXPECT_TRUE(fs::exists(elsewhere_ / kAgentsName));
}

}  // namespace
}  // namespace softib::fabric
