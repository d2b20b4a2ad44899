#include "softib/transport/wire_message.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace softib::transport {

namespace {

/// Room for one descriptor beside a message.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> octets{};
};

}  // namespace

int send_message(int socket, MessageKind kind, ipoib::ConstBytes body, int handed_over) {
  auto first = static_cast<std::uint8_t>(kind);
  // sendmsg() does not write through it.
  iovec pieces[] = {{&first, 1}, {const_cast<std::uint8_t*>(body.data()), body.size()}};
  msghdr header{};
  header.msg_iov = pieces;
  header.msg_iovlen = std::size(pieces);
  Control control;
  if (handed_over >= 0) {
    header.msg_control = control.octets.data();
    header.msg_controllen = control.octets.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &handed_over, sizeof handed_over);
  }
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

MessageReader::Got MessageReader::next(int socket) {
  handed_over_.reset();
  iovec piece{buffer_.data(), buffer_.size()};
  Control control;
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control.octets.data();
  // Not CMSG_SPACE: into its padding the kernel would put a second descriptor.
  header.msg_controllen = CMSG_LEN(sizeof(int));
  ssize_t count = 0;
  // A peer that closes without having read all that we said leaves an error before its last words.
  do {
    count = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && (errno == EINTR || errno == ECONNRESET));
  if (count < 0) return errno == EAGAIN ? Got::nothing : Got::end;
  for (auto* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    handed_over_.reset(fd);
  }
  if (count == 0) return Got::end;
  size_ = static_cast<std::size_t>(count);
  const bool whole = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (whole && kind() < MessageKind::count_) return Got::message;
  handed_over_.reset();
  return Got::malformed;
}

}  // namespace softib::transport
