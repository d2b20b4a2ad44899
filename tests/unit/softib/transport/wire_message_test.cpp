// Messages between processes, valid and malformed ones.
#include "softib/transport/wire_message.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <vector>

#include "ipoib/ancillary_descriptors.hpp"
#include "open_descriptors.hpp"
#include "tests/support/emulator.hpp"

namespace softib::transport {
namespace {

using test::open_descriptors;
using Got = MessageReader::Got;

class WireMessageTest : public testing::Test {
 protected:
  WireMessageTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    near_.reset(ends[0]);
    far_.reset(ends[1]);
  }
  Got next() { return reader_.next(far_.get()); }
  void send_bytes(const std::vector<std::uint8_t>& bytes) {
    EXPECT_EQ(::send(near_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  void send_two_descriptors(int fd, MessageKind kind_to_send = MessageKind::wakeup_fd) {
    auto kind = static_cast<std::uint8_t>(kind_to_send);
    iovec piece{&kind, 1};
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    ipoib::AncillaryDescriptors control;
    control.attach(header, std::array{fd, fd});
    EXPECT_EQ(::sendmsg(near_.get(), &header, 0), 1);
  }

  ipoib::FileDescriptor near_;
  ipoib::FileDescriptor far_;
  MessageReader reader_;
};

TEST_F(WireMessageTest, ReceivesMessagesInOrderWithTheirDescriptors) {
  const ipoib::FileDescriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<std::uint8_t> body = {1, 2, 3};
  EXPECT_EQ(send_message(near_.get(), MessageKind::wakeup), 0);
  EXPECT_EQ(send_message(near_.get(), MessageKind::ring, body, file.get()), 0);
  EXPECT_EQ(send_message(near_.get(), MessageKind::mad, body), 0);
  ASSERT_EQ(next(), Got::message);
  EXPECT_EQ(reader_.kind(), MessageKind::wakeup);
  EXPECT_TRUE(reader_.body().empty());
  EXPECT_FALSE(reader_.fd());
  ASSERT_EQ(next(), Got::message);
  EXPECT_EQ(reader_.kind(), MessageKind::ring);
  EXPECT_THAT(reader_.body(), testing::ElementsAreArray(body));
  struct stat sent {};
  struct stat received {};
  ASSERT_EQ(::fstat(file.get(), &sent), 0);
  ASSERT_EQ(::fstat(reader_.fd().get(), &received), 0);
  EXPECT_EQ(sent.st_rdev, received.st_rdev);
  EXPECT_EQ(::fcntl(reader_.fd().get(), F_GETFD), FD_CLOEXEC);
  ASSERT_EQ(next(), Got::message);
  EXPECT_FALSE(reader_.fd()) << "that belonged to the previous message";
  EXPECT_EQ(next(), Got::nothing);
  near_.reset();
  EXPECT_EQ(next(), Got::end);
}

TEST_F(WireMessageTest, RejectsUnknownKindsAndOversizedMessages) {
  send_bytes({static_cast<std::uint8_t>(MessageKind::count_)});
  EXPECT_EQ(next(), Got::malformed);
  send_bytes(std::vector<std::uint8_t>(2 + kMaxMessageBody));
  EXPECT_EQ(next(), Got::malformed) << "too long";
  send_bytes(std::vector<std::uint8_t>(1 + kMaxMessageBody));
  EXPECT_EQ(next(), Got::message);
}

TEST_F(WireMessageTest, RejectsTwoDescriptorsAndKeepsNone) {
  SKIP_UNDER_EMULATOR("does not say that descriptors were cut off");
  const auto before = open_descriptors();
  for (const auto kind : {MessageKind::wakeup_fd, MessageKind::ring, MessageKind::mad}) {
    send_two_descriptors(near_.get(), kind);
    EXPECT_EQ(next(), Got::malformed);
    EXPECT_FALSE(reader_.fd());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(WireMessageTest, RejectsDescriptorsOfMessagesThatCarryNone) {
  const auto before = open_descriptors();
  for (const auto kind : {MessageKind::wakeup, MessageKind::mad}) {
    EXPECT_EQ(send_message(near_.get(), kind, {}, near_.get()), 0);
    EXPECT_EQ(next(), Got::malformed);
    EXPECT_FALSE(reader_.fd());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(WireMessageTest, RejectsMessagesThatLackTheirDescriptor) {
  for (const auto kind : {MessageKind::ring, MessageKind::wakeup_table, MessageKind::wakeup_fd}) {
    EXPECT_EQ(send_message(near_.get(), kind), 0);
    EXPECT_EQ(next(), Got::malformed);
  }
}

/// The fault is not its sender's.
TEST_F(WireMessageTest, SaysThatADescriptorFoundNoRoom) {
  const std::vector<std::uint8_t> body = {1, 2, 3};
  ASSERT_EQ(send_message(near_.get(), MessageKind::wakeup_fd, body, near_.get()), 0);
  ASSERT_EQ(send_message(near_.get(), MessageKind::mad, body, near_.get()), 0);
  ASSERT_EQ(send_message(near_.get(), MessageKind::ring, {}, near_.get()), 0);
  {
    const test::DescriptorLimit limit(64);
    const auto all = test::take_all_descriptors();
    EXPECT_EQ(next(), Got::no_room);
    EXPECT_EQ(reader_.kind(), MessageKind::wakeup_fd);
    EXPECT_THAT(reader_.body(), testing::ElementsAreArray(body));
    EXPECT_FALSE(reader_.fd());
    EXPECT_EQ(next(), Got::malformed) << "it should have had none";
  }
  EXPECT_EQ(next(), Got::message) << "room again";
  EXPECT_TRUE(reader_.fd());
}

TEST_F(WireMessageTest, AFullQueueIsAnErrorWithoutBlocking) {
  int error = 0;
  while (error == 0) error = send_message(near_.get(), MessageKind::wakeup);
  EXPECT_EQ(error, EAGAIN);
}

TEST_F(WireMessageTest, ReadsMessagesOfAPeerThatClosedWithUnreadData) {
  EXPECT_EQ(send_message(far_.get(), MessageKind::wakeup), 0);
  EXPECT_EQ(send_message(near_.get(), MessageKind::wakeup), 0);
  near_.reset();
  EXPECT_EQ(next(), Got::message);
  EXPECT_EQ(next(), Got::end);
  EXPECT_EQ(send_message(far_.get(), MessageKind::wakeup), EPIPE);
}

}  // namespace
}  // namespace softib::transport
