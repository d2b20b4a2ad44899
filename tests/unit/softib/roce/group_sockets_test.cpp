// Multicast groups on the loopback interface, at addresses of this test process alone.
#include "softib/roce/group_sockets.hpp"

#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <string>

#include "softib/roce/socket_address.hpp"
#include "softib/roce/udp_socket.hpp"

namespace softib::roce {
namespace {

constexpr int kMilliseconds = 5000;

/// 239/8 is for use within one organisation (RFC 2365).
Gid own_group(std::uint8_t last) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return gid_of_ipv4(239U << 24 | (pid & 0xffff) << 8 | last);
}

class GroupSocketsTest : public ::testing::Test {
 protected:
  static bool is_readable(const GroupSockets& sockets, int milliseconds) {
    pollfd readable{sockets.fd(), POLLIN, 0};
    return ::poll(&readable, 1, milliseconds) == 1;
  }
  void send_to(const Gid& group) const {
    const auto socket = open_send_socket(gid_of_ipv4(0x7f000001), loopback_, 0);
    ASSERT_TRUE(socket);
    const SocketAddress to(group, kUdpPort, loopback_);
    ASSERT_EQ(::sendto(socket->get(), "hello", 5, 0, to.get(), to.size), 5);
  }

  const unsigned loopback_ = ::if_nametoindex("lo");
  const Gid first_ = own_group(1);
  const Gid second_ = own_group(2);
};

TEST_F(GroupSocketsTest, APacketWaitsInTheSocketsOfItsGroup) {
  GroupSockets ours;
  GroupSockets theirs;
  ASSERT_TRUE(ours.set(std::array{first_, second_}, loopback_));
  ASSERT_TRUE(theirs.set(std::array{second_}, loopback_));
  send_to(second_);
  ASSERT_TRUE(is_readable(ours, kMilliseconds));
  ASSERT_TRUE(is_readable(theirs, kMilliseconds)) << "each process gets a copy";
  ASSERT_EQ(ours.readable().size(), 1U);
  EXPECT_EQ(ours.readable().front()->address, second_);
  send_to(first_);
  while (ours.readable().size() < 2) ASSERT_TRUE(is_readable(ours, kMilliseconds));
  ASSERT_EQ(theirs.readable().size(), 1U);
}

TEST_F(GroupSocketsTest, AGroupThatIsNotNamedAgainIsLeft) {
  GroupSockets ours;
  ASSERT_TRUE(ours.set(std::array{first_, second_}, loopback_));
  ASSERT_TRUE(ours.set(std::array{second_}, loopback_));
  send_to(first_);
  send_to(second_);
  ASSERT_TRUE(is_readable(ours, kMilliseconds));
  ASSERT_EQ(ours.readable().size(), 1U);
  EXPECT_EQ(ours.readable().front()->address, second_);
}

TEST_F(GroupSocketsTest, WhatCannotBeJoinedIsAnError) {
  GroupSockets ours;
  const auto joined = ours.set(std::array{gid_of_ipv4(0x0a000001)}, loopback_);
  EXPECT_FALSE(joined) << "no group";
  EXPECT_TRUE(ours.readable().empty());
}

TEST_F(GroupSocketsTest, GroupsMoveToAnotherInterface) {
  constexpr unsigned kNone = 0x7fffffff;
  GroupSockets ours;
  ASSERT_TRUE(ours.set(std::array{first_}, loopback_));
  ours.move_to(kNone);
  EXPECT_TRUE(ours.set({}, loopback_));
  ASSERT_TRUE(ours.set(std::array{first_}, loopback_));
  send_to(first_);
  EXPECT_TRUE(is_readable(ours, kMilliseconds));
}

}  // namespace
}  // namespace softib::roce
