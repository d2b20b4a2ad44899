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
  /// The groups of a process.
  struct Process {
    [[nodiscard]] bool is_readable() const {
      pollfd readable{set.fd(), POLLIN, 0};
      return ::poll(&readable, 1, kMilliseconds) == 1;
    }
    SocketSet set;
    GroupSockets groups{set};
  };
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
  Process ours;
  Process theirs;
  ASSERT_TRUE(ours.groups.replace(std::array{first_, second_}, loopback_));
  ASSERT_TRUE(theirs.groups.replace(std::array{second_}, loopback_));
  send_to(second_);
  ASSERT_TRUE(ours.is_readable());
  ASSERT_TRUE(theirs.is_readable()) << "each process gets a copy";
  ASSERT_EQ(ours.set.readable().size(), 1U);
  EXPECT_EQ(ours.set.readable().front()->address, second_);
  send_to(first_);
  while (ours.set.readable().size() < 2) ASSERT_TRUE(ours.is_readable());
  ASSERT_EQ(theirs.set.readable().size(), 1U);
}

TEST_F(GroupSocketsTest, AGroupThatIsNotNamedAgainIsLeft) {
  Process ours;
  ASSERT_TRUE(ours.groups.replace(std::array{first_, second_}, loopback_));
  ASSERT_TRUE(ours.groups.replace(std::array{second_}, loopback_));
  send_to(first_);
  send_to(second_);
  ASSERT_TRUE(ours.is_readable());
  ASSERT_EQ(ours.set.readable().size(), 1U);
  EXPECT_EQ(ours.set.readable().front()->address, second_);
}

TEST_F(GroupSocketsTest, AGroupThatIsNamedAgainKeepsItsPackets) {
  Process ours;
  ASSERT_TRUE(ours.groups.replace(std::array{first_}, loopback_));
  send_to(first_);
  ASSERT_TRUE(ours.is_readable());
  ASSERT_TRUE(ours.groups.replace(std::array{first_, second_}, loopback_));
  ours.groups.move_to(loopback_);
  EXPECT_EQ(ours.set.readable().size(), 1U);
}

TEST_F(GroupSocketsTest, WhatCannotBeJoinedIsAnError) {
  Process ours;
  const auto joined = ours.groups.replace(std::array{gid_of_ipv4(0x0a000001)}, loopback_);
  EXPECT_FALSE(joined) << "no group";
  EXPECT_TRUE(ours.set.readable().empty());
}

TEST_F(GroupSocketsTest, GroupsMoveToAnotherInterface) {
  constexpr unsigned kNone = 0x7fffffff;
  Process ours;
  ASSERT_TRUE(ours.groups.replace(std::array{first_}, loopback_));
  ours.groups.move_to(kNone);
  EXPECT_TRUE(ours.groups.replace({}, loopback_));
  ASSERT_TRUE(ours.groups.replace(std::array{first_}, loopback_));
  send_to(first_);
  EXPECT_TRUE(ours.is_readable());
}

}  // namespace
}  // namespace softib::roce
