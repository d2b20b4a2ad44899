#include "softib/roce/socket_exchange.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "softib/fabric/shared_file.hpp"
#include "tests/support/softib/temporary_folder.hpp"

namespace softib::roce {
namespace {

using ipoib::FileDescriptor;

/// A pipe, of which one end is lent.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    out = FileDescriptor(ends[0]);
    in = FileDescriptor(ends[1]);
  }
  /// Whether a descriptor is a copy of the end to write to.
  [[nodiscard]] bool is_fed_by(int fd) const {
    char byte = 0;
    return ::write(fd, "x", 1) == 1 && ::read(out.get(), &byte, 1) == 1;
  }
  FileDescriptor out;
  FileDescriptor in;
};

class SocketExchangeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(folder_.create());
    auto opened = SocketLender::open(folder_);
    ASSERT_TRUE(opened) << opened.error().message;
    lender_.emplace(std::move(*opened));
  }
  /// Borrows while another thread answers, once.
  ipoib::Result<BorrowedSockets> borrow(std::uint32_t slot) {
    std::thread process([&] {
      pollfd request{lender_->fd(), POLLIN, 0};
      if (::poll(&request, 1, 10'000) == 1) answer();
    });
    auto borrowed = borrow_sockets(folder_, slot);
    process.join();
    return borrowed;
  }
  void answer() {
    lender_->answer([&](std::uint32_t slot) {
      slots_.push_back(slot);
      return lent_;
    });
  }
  /// Sends a request of so many bytes, with a descriptor if `reply` is one. Returns false if there
  /// is no room for it.
  bool request(std::size_t bytes, int reply) const {
    const auto at = folder_.open();
    const auto name = fabric::open_socket(at.value().get(), kExchangeName);
    const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(fabric::connect_socket(socket.get(), name.value()), 0);
    std::array<std::uint8_t, 16> content{};
    iovec iov{content.data(), bytes};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    if (reply >= 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      auto* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof reply);
      std::memcpy(CMSG_DATA(header), &reply, sizeof reply);
    }
    return ::sendmsg(socket.get(), &message, MSG_DONTWAIT) == static_cast<ssize_t>(bytes);
  }
  /// Where an answer goes that nobody reads.
  [[nodiscard]] static FileDescriptor unread() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    ::close(pair[1]);
    return FileDescriptor(pair[0]);
  }

  static constexpr std::size_t kRequest = sizeof(std::uint32_t);

  const test::TemporaryFolder root_;
  const fabric::SubnetFolder folder_{root_ / "roce"};
  std::optional<SocketLender> lender_;
  std::array<Pipe, 4> pipes_;
  const Gid first_{0, Guid(0x0000'ffff'0a00'0001)};
  const Gid second_{0xfd00'0000'0000'0000, Guid(2)};
  LentSockets lent_{7,
                    false,
                    {{first_, {pipes_[0].in.get(), pipes_[1].in.get()}},
                     {second_, {pipes_[2].in.get(), pipes_[3].in.get()}}}};
  std::vector<std::uint32_t> slots_;
};

TEST_F(SocketExchangeTest, ASlotGetsItsSocketsOfEachAddress) {
  const auto borrowed = borrow(QpnLayout::kSlots - 1);
  ASSERT_TRUE(borrowed) << borrowed.error().message;
  EXPECT_EQ(slots_, std::vector{std::uint32_t{QpnLayout::kSlots - 1}});
  EXPECT_EQ(borrowed->interface, 7U);
  EXPECT_FALSE(borrowed->is_mixed);
  ASSERT_EQ(borrowed->sockets.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& socket = borrowed->sockets[i];
    EXPECT_EQ(socket.address, i < 2 ? first_ : second_);
    EXPECT_EQ(socket.is_for_responses, i % 2 == 1);
    EXPECT_TRUE(pipes_[i].is_fed_by(socket.fd.get()));
  }
}

TEST_F(SocketExchangeTest, ASlotNoticesTheEndOfTheLender) {
  lent_.is_mixed = true;
  const auto borrowed = borrow(0);
  ASSERT_TRUE(borrowed) << borrowed.error().message;
  EXPECT_TRUE(borrowed->is_mixed);
  pollfd lender{borrowed->lender.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&lender, 1, 0), 0);
  lender_.reset();
  EXPECT_EQ(::poll(&lender, 1, 10'000), 1);
}

TEST_F(SocketExchangeTest, APortWithoutAddressesHasNoSockets) {
  lent_ = {9, false, {}};
  const auto borrowed = borrow(0);
  ASSERT_TRUE(borrowed) << borrowed.error().message;
  EXPECT_EQ(borrowed->interface, 9U);
  EXPECT_TRUE(borrowed->sockets.empty());
}

TEST_F(SocketExchangeTest, AnAnswerWithoutItsSocketIsAnError) {
  lent_.sockets[1].fds.others = -1;
  const auto borrowed = borrow(0);
  ASSERT_FALSE(borrowed);
  EXPECT_EQ(borrowed.error().code, EPROTO);
  EXPECT_NE(borrowed.error().message.find("no socket in the answer"), std::string::npos);
}

TEST_F(SocketExchangeTest, ASlotThatCannotBeGetsNoAnswer) {
  const auto borrowed = borrow(QpnLayout::kSlots);
  ASSERT_FALSE(borrowed);
  EXPECT_EQ(borrowed.error().code, EPROTO);
  EXPECT_NE(borrowed.error().message.find("no answer of the process of the RoCE port: "),
            std::string::npos);
  EXPECT_TRUE(slots_.empty());
}

TEST_F(SocketExchangeTest, BadRequestsAreIgnoredAndOthersAnswered) {
  const auto reply = unread();
  EXPECT_TRUE(request(kRequest, -1));
  EXPECT_TRUE(request(kRequest - 1, reply.get()));
  EXPECT_TRUE(request(kRequest + 1, reply.get()));
  answer();
  EXPECT_TRUE(slots_.empty());
  EXPECT_TRUE(request(kRequest - 1, reply.get()));
  EXPECT_TRUE(request(kRequest, reply.get()));
  EXPECT_TRUE(request(kRequest, reply.get()));
  answer();
  EXPECT_EQ(slots_.size(), 2U);
}

TEST_F(SocketExchangeTest, AFloodIsAnsweredInTurnsAndRefusesOthers) {
  constexpr std::size_t kAtOnce = 64;
  const auto reply = unread();
  std::size_t sent = 0;
  while (sent < 100'000 && request(kRequest, reply.get())) ++sent;
  const auto refused = borrow_sockets(folder_, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EAGAIN);
  EXPECT_NE(refused.error().message.find("cannot ask the process of the RoCE port: "),
            std::string::npos);
  answer();
  EXPECT_EQ(slots_.size(), std::min(sent, kAtOnce));
}

TEST_F(SocketExchangeTest, WithoutAProcessOfThePortItIsNotReached) {
  lender_.reset();
  const auto dead = borrow_sockets(folder_, 0);
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, ECONNREFUSED);
  EXPECT_NE(dead.error().message.find("cannot reach the process of the RoCE port: "),
            std::string::npos);
  const auto none = borrow_sockets(fabric::SubnetFolder(root_ / "other"), 0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENOENT);
  EXPECT_FALSE(SocketLender::open(fabric::SubnetFolder(root_ / "other")));
}

}  // namespace
}  // namespace softib::roce
