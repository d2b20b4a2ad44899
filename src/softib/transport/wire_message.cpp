#include "softib/transport/wire_message.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace softib::transport {

namespace {

/// Control buffer for one descriptor.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

bool carries_descriptor(MessageKind kind) {
  return kind == MessageKind::ring || kind == MessageKind::wakeup_table ||
         kind == MessageKind::wakeup_fd;
}

}  // namespace

int send_message(int socket, MessageKind kind, ipoib::ConstBytes body, int fd) {
  auto first = static_cast<std::uint8_t>(kind);
  // The cast is safe: sendmsg() only reads.
  iovec pieces[] = {{&first, 1}, {const_cast<std::uint8_t*>(body.data()), body.size()}};
  msghdr header{};
  header.msg_iov = pieces;
  header.msg_iovlen = std::size(pieces);
  Control control;
  if (fd >= 0) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

MessageReader::Got MessageReader::next(int socket) {
  fd_.reset();
  iovec piece{buffer_.data(), buffer_.size()};
  Control control;
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  // Not CMSG_SPACE: the kernel would put a second descriptor into the padding.
  header.msg_controllen = CMSG_LEN(sizeof(int));
  ssize_t count = 0;
  // If a peer closes with messages of ours unread, recvmsg() fails with ECONNRESET once, before it
  // returns the messages that the peer had sent.
  do {
    count = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && (errno == EINTR || errno == ECONNRESET));
  if (count < 0) return errno == EAGAIN ? Got::nothing : Got::end;
  for (auto* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int received = -1;
    std::memcpy(&received, CMSG_DATA(part), sizeof received);
    fd_.reset(received);
  }
  if (count == 0) return Got::end;
  size_ = static_cast<std::size_t>(count);
  const bool is_known = (header.msg_flags & MSG_TRUNC) == 0 && kind() < MessageKind::count_;
  const bool is_cut = (header.msg_flags & MSG_CTRUNC) != 0;  // what it carried, or more of it
  if (is_known && !is_cut && bool(fd_) == carries_descriptor(kind())) return Got::message;
  if (is_known && is_cut && !fd_ && carries_descriptor(kind())) return Got::no_room;
  fd_.reset();
  return Got::malformed;
}

}  // namespace softib::transport
