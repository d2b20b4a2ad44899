#include "ipoib/ancillary_descriptors.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "tests/support/emulator.hpp"

namespace ipoib {
namespace {

class AncillaryDescriptorsTest : public testing::Test {
 protected:
  struct Received {
    std::vector<FileDescriptor> descriptors;
    bool is_cut = false;
  };

  AncillaryDescriptorsTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    near_.reset(ends[0]);
    far_.reset(ends[1]);
  }
  void send(const std::vector<int>& descriptors) {
    AncillaryDescriptors control;
    msghdr header = one_byte();
    control.attach(header, descriptors);
    ASSERT_EQ(::sendmsg(near_.get(), &header, MSG_NOSIGNAL), 1);
  }
  Received receive(std::size_t room) {
    AncillaryDescriptors control;
    msghdr header = one_byte();
    control.make_room(header, room);
    EXPECT_EQ(::recvmsg(far_.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT), 1);
    return {AncillaryDescriptors::take(header), (header.msg_flags & MSG_CTRUNC) != 0};
  }
  msghdr one_byte() {
    msghdr header{};
    header.msg_iov = &piece_;
    header.msg_iovlen = 1;
    return header;
  }
  /// Grows if a descriptor leaks.
  static int lowest_free() { return FileDescriptor(::dup(STDIN_FILENO)).get(); }
  static ino_t inode(const FileDescriptor& of) {
    struct stat status {};
    EXPECT_EQ(::fstat(of.get(), &status), 0);
    return status.st_ino;
  }

  FileDescriptor near_;
  FileDescriptor far_;
  char byte_ = 'x';
  iovec piece_{&byte_, 1};
};

TEST_F(AncillaryDescriptorsTest, ArriveInOrder) {
  send({near_.get(), far_.get(), near_.get()});
  const auto received = receive(AncillaryDescriptors::kMost);
  EXPECT_FALSE(received.is_cut);
  ASSERT_EQ(received.descriptors.size(), 3U);
  EXPECT_EQ(inode(received.descriptors[0]), inode(near_));
  EXPECT_EQ(inode(received.descriptors[1]), inode(far_));
  EXPECT_EQ(inode(received.descriptors[2]), inode(near_));
}

TEST_F(AncillaryDescriptorsTest, AMessageMayHaveNone) {
  send({});
  const auto received = receive(1);
  EXPECT_TRUE(received.descriptors.empty());
  EXPECT_FALSE(received.is_cut);
}

/// Also where the kernel's alignment leaves space for one more.
TEST_F(AncillaryDescriptorsTest, NoMoreArriveThanThereIsRoomForAndNoneStaysOpen) {
  SKIP_UNDER_EMULATOR("does not say that descriptors were cut off");
  const int before = lowest_free();
  for (std::size_t room = 1; room < AncillaryDescriptors::kMost; ++room) {
    send(std::vector<int>(AncillaryDescriptors::kMost, near_.get()));
    const auto received = receive(room);
    EXPECT_EQ(received.descriptors.size(), room);
    EXPECT_TRUE(received.is_cut);
  }
  EXPECT_EQ(lowest_free(), before);
}

}  // namespace
}  // namespace ipoib
