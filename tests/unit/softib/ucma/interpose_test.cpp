// The rdma_cm device as a program sees it: open(2), write(2) and fstat(2) of the C library.
#undef _FORTIFY_SOURCE
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "ipoib/file_descriptor.hpp"
#include "softib/endpoint/last_error.hpp"
#include "test_subnet.hpp"

// What the headers of new C libraries do not declare.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
int __fxstat(int version, int fd, struct stat* status) noexcept;
int __fxstat64(int version, int fd, struct stat64* status) noexcept;
}
// NOLINTEND(bugprone-reserved-identifier)

namespace softib::ucma::interposed {
namespace {

constexpr const char* kDevice = "/dev/infiniband/rdma_cm";

/// This process is one on the HCA host1, until it ends.
test::TestSubnet& subnet() {
  static test::TestSubnet& one = *new test::TestSubnet;
  static const test::FolderAtExit at_exit(one.folder());
  return one;
}

template <class Body>
struct Command {
  rdma_ucm_cmd_hdr header;
  Body body;
};

template <class Body, class Response>
Command<Body> command(std::uint32_t number, Body body, Response& response) {
  body.response = reinterpret_cast<std::uint64_t>(&response);
  return {{number, sizeof(Body), sizeof(Response)}, body};
}

class RdmaCmDevice : public ::testing::Test {
 protected:
  RdmaCmDevice() { subnet().enter("host1"); }
  static ipoib::FileDescriptor open_device(int flags = O_RDWR | O_CLOEXEC) {
    ipoib::FileDescriptor device(::open(kDevice, flags));
    EXPECT_TRUE(device) << errno;
    return device;
  }
  /// Writes a command to the device; returns 0, or the errno value.
  template <class Body>
  static int write(int fd, const Command<Body>& command) {
    const ssize_t done = ::write(fd, &command, sizeof command);
    EXPECT_TRUE(done == -1 || done == ssize_t{sizeof command}) << done;
    return done == -1 ? errno : 0;
  }
  static std::uint32_t create(int fd) {
    rdma_ucm_create_id body{};
    body.uid = 1;
    body.ps = RDMA_PS_TCP;
    rdma_ucm_create_id_resp response{};
    EXPECT_EQ(write(fd, command(RDMA_USER_CM_CMD_CREATE_ID, body, response)), 0);
    return response.id;
  }
  /// Resolves an address that nobody has, so that an event comes after 20 ms.
  static void resolve(int fd) {
    rdma_ucm_resolve_ip body{};
    body.id = create(fd);
    body.timeout_ms = 20;
    body.dst_addr.sin6_family = AF_INET;
    constexpr std::array<std::uint8_t, 4> kNobody{10, 1, 2, 3};
    std::memcpy(&body.dst_addr.sin6_flowinfo, kNobody.data(), kNobody.size());
    const Command<rdma_ucm_resolve_ip> command{{RDMA_USER_CM_CMD_RESOLVE_IP, sizeof body, 0}, body};
    EXPECT_EQ(write(fd, command), 0);
  }
  static int get_event(int fd) {
    rdma_ucm_event_resp response{};
    return write(fd, command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, response));
  }
};

TEST_F(RdmaCmDevice, IsACharacterDevice) {
  const auto device = open_device();
  const ipoib::FileDescriptor other(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto as64 = [](struct stat* status) { return reinterpret_cast<struct stat64*>(status); };
  using Call = std::function<int(int, struct stat*)>;
  struct stat kernels {};
  const bool exists = ::stat(kDevice, &kernels) == 0 && S_ISCHR(kernels.st_mode);
  for (const auto& call :
       {Call(::fstat), Call([=](int fd, auto* to) { return ::fstat64(fd, as64(to)); }),
        Call([](int fd, auto* to) { return ::__fxstat(1, fd, to); }),
        Call([=](int fd, auto* to) { return ::__fxstat64(1, fd, as64(to)); })}) {
    struct stat found {};
    ASSERT_EQ(call(device.get(), &found), 0);
    EXPECT_EQ(found.st_mode, mode_t{S_IFCHR | 0666});
    EXPECT_EQ(found.st_nlink, 1U);
    EXPECT_EQ(found.st_rdev, exists ? kernels.st_rdev : makedev(10, 0));
    ASSERT_EQ(call(other.get(), &found), 0);
    EXPECT_EQ(found.st_rdev, makedev(1, 3)) << "any other file is the kernel's";
    EXPECT_EQ(call(-1, &found), -1);
    EXPECT_EQ(call(1 << 16, &found), -1);
  }
}

TEST_F(RdmaCmDevice, CommandsFailWithTheKernelsErrors) {
  const auto device = open_device();
  EXPECT_GT(create(device.get()), 0U);
  const Command<rdma_ucm_listen> listen{{RDMA_USER_CM_CMD_LISTEN, sizeof(rdma_ucm_listen), 0},
                                        {60'000, 1}};
  EXPECT_EQ(write(device.get(), listen), ENOENT);
  EXPECT_STREQ(endpoint::last_error(),
               "rdma_listen: ENOENT: the process has no such ID: it is destroyed, or was never "
               "created");
  // A number that another file has since is not the device.
  ipoib::FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::dup2(null.get(), device.get()), device.get());
  EXPECT_EQ(write(device.get(), listen), 0) << "it is /dev/null";
}

TEST_F(RdmaCmDevice, WaitsForAnEventUnlessItIsNonBlocking) {
  auto device = open_device();
  resolve(device.get());
  EXPECT_EQ(get_event(device.get()), 0);
  device = open_device(O_RDWR | O_NONBLOCK);
  EXPECT_EQ(::fcntl(device.get(), F_GETFD), 0);
  EXPECT_EQ(get_event(device.get()), EAGAIN);
}

TEST_F(RdmaCmDevice, ASignalInterruptsTheWait) {
  const auto device = open_device();
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> is_over = false;
  std::thread sender([&, waiting = ::pthread_self()] {
    while (!is_over) {  // the first may come before the wait
      ::pthread_kill(waiting, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_EQ(get_event(device.get()), EINTR);
  is_over = true;
  sender.join();
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(RdmaCmDevice, AChildCannotUseTheChannelsOfItsParent) {
  const auto device = open_device();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(get_event(device.get()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), EIO);
}

TEST_F(RdmaCmDevice, AProcessWithoutAnHcaCannotOpenIt) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::setenv(fabric::kHcaVariable, "no such", 1);
    ::_exit(::open(kDevice, O_RDWR) == -1 ? errno : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_NE(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace softib::ucma::interposed
