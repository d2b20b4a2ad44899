// Each C function that sends: by a socket of the RDMA family of netlink to the view, by others to
// the kernel.
#undef _FORTIFY_SOURCE
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "ipoib/file_descriptor.hpp"
#include "test_subnet.hpp"

namespace softib::view {
namespace {

/// A request for all devices.
struct Request {
  nlmsghdr header{sizeof(nlmsghdr), RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET),
                  NLM_F_REQUEST | NLM_F_DUMP, 5, 0};
};
constexpr ssize_t kSize = sizeof(Request);
const sockaddr_nl kKernel{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 0};

sockaddr* address(const sockaddr_nl& of) {
  return reinterpret_cast<sockaddr*>(const_cast<sockaddr_nl*>(&of));
}

struct SendFunction {
  const char* name;
  std::function<ssize_t(int, Request&)> call;
};

/// All functions that send, with and without an address.
std::vector<SendFunction> send_functions() {
  const auto message = [](int fd, Request& request, const sockaddr_nl* to) {
    constexpr std::size_t kFirst = 7;
    auto* const bytes = reinterpret_cast<std::uint8_t*>(&request);
    std::array<iovec, 2> parts{iovec{bytes, kFirst}, iovec{bytes + kFirst, kSize - kFirst}};
    msghdr all{};
    all.msg_iov = parts.data();
    all.msg_iovlen = parts.size();
    all.msg_name = to != nullptr ? address(*to) : nullptr;
    all.msg_namelen = to != nullptr ? sizeof *to : 0;
    return ::sendmsg(fd, &all, 0);
  };
  return {
      {"send", [](int fd, Request& from) { return ::send(fd, &from, sizeof from, 0); }},
      {"sendto",
       [](int fd, Request& from) {
         return ::sendto(fd, &from, sizeof from, 0, address(kKernel), sizeof kKernel);
       }},
      {"sendto, no address",
       [](int fd, Request& from) { return ::sendto(fd, &from, sizeof from, 0, nullptr, 0); }},
      {"sendmsg", [=](int fd, Request& from) { return message(fd, from, &kKernel); }},
      {"sendmsg, no address", [=](int fd, Request& from) { return message(fd, from, nullptr); }},
  };
}

/// This process is one on the HCA host1.
class InterposedNetlink : public ::testing::Test {
 protected:
  InterposedNetlink() { subnet_.enter("host1"); }
  static ipoib::FileDescriptor open() {
    return ipoib::FileDescriptor(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA));
  }
  /// The type and the receiver of the next message, which must have come already.
  static nlmsghdr next(int fd) {
    std::array<std::uint8_t, 8192> bytes{};
    const auto size = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    nlmsghdr header{};
    if (size < ssize_t{sizeof header}) {
      ADD_FAILURE() << "no message: " << std::strerror(errno);
    } else {
      std::memcpy(&header, bytes.data(), sizeof header);
    }
    return header;
  }
  test::TestSubnet subnet_;
};

TEST_F(InterposedNetlink, EachFunctionGetsTheAnswersOfTheView) {
  for (const auto& [name, call] : send_functions()) {
    SCOPED_TRACE(name);
    const auto socket = open();
    ASSERT_TRUE(socket);
    Request request;
    ASSERT_EQ(call(socket.get(), request), kSize);
    const auto device = next(socket.get());
    EXPECT_EQ(device.nlmsg_type, request.header.nlmsg_type);
    sockaddr_nl own{};
    socklen_t size = sizeof own;
    ASSERT_EQ(::getsockname(socket.get(), address(own), &size), 0);
    EXPECT_EQ(device.nlmsg_pid, own.nl_pid);
    EXPECT_NE(own.nl_pid, 0U);
    EXPECT_EQ(next(socket.get()).nlmsg_type, NLMSG_DONE);
  }
}

TEST_F(InterposedNetlink, AnswersThatFindNoRoomAreAnError) {
  const auto socket = open();
  const int least = 1;
  ASSERT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least), 0);
  Request request;
  ssize_t sent = kSize;
  for (int i = 0; i < 100 && sent == kSize; ++i) {
    sent = ::send(socket.get(), &request, sizeof request, 0);
  }
  EXPECT_EQ(sent, -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(InterposedNetlink, OtherSocketsAreTheKernels) {
  const auto opened = open();  // from now on, sockets are looked at
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, pair.data()), 0);
  const ipoib::FileDescriptor one(pair[0]);
  const ipoib::FileDescriptor other(pair[1]);
  for (const auto& [name, call] : send_functions()) {
    SCOPED_TRACE(name);
    if (std::strchr(name, ',') == nullptr && std::strcmp(name, "send") != 0) continue;
    Request request;
    ASSERT_EQ(call(one.get(), request), kSize);
    EXPECT_EQ(next(other.get()).nlmsg_seq, request.header.nlmsg_seq);
  }
  // What goes to another program goes there.
  const ipoib::FileDescriptor peer(::socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK));
  sockaddr_nl to{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 0};
  socklen_t size = sizeof to;
  ASSERT_EQ(::bind(peer.get(), address(to), size), 0);
  ASSERT_EQ(::getsockname(peer.get(), address(to), &size), 0);
  Request request;
  ASSERT_EQ(::sendto(opened.get(), &request, sizeof request, 0, address(to), sizeof to), kSize);
  EXPECT_EQ(next(peer.get()).nlmsg_seq, request.header.nlmsg_seq);
  const ipoib::FileDescriptor routes(::socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
  ASSERT_EQ(::send(routes.get(), &request, sizeof request, 0), kSize);
  EXPECT_EQ(next(routes.get()).nlmsg_type, NLMSG_ERROR) << "rtnetlink does not know the type";
}

}  // namespace
}  // namespace softib::view
