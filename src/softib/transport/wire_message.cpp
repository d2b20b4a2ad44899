#include "softib/transport/wire_message.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <utility>

#include "ipoib/ancillary_descriptors.hpp"

namespace softib::transport {

using ipoib::AncillaryDescriptors;

namespace {

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
  AncillaryDescriptors control;
  control.attach(header, {&fd, fd >= 0 ? 1U : 0U});
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

MessageReader::Got MessageReader::next(int socket) {
  fd_.reset();
  iovec piece{buffer_.data(), buffer_.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  AncillaryDescriptors control;
  control.make_room(header, 1);
  ssize_t count = 0;
  // If a peer closes with messages of ours unread, recvmsg() fails with ECONNRESET once, before it
  // returns the messages that the peer had sent.
  do {
    count = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && (errno == EINTR || errno == ECONNRESET));
  if (count < 0) return errno == EAGAIN ? Got::nothing : Got::end;
  auto descriptors = AncillaryDescriptors::take(header);
  if (!descriptors.empty()) fd_ = std::move(descriptors.front());
  if (count == 0) return Got::end;
  size_ = static_cast<std::size_t>(count);
  const bool is_known = (header.msg_flags & MSG_TRUNC) == 0 && kind() < MessageKind::count_;
  const bool is_cut = (header.msg_flags & MSG_CTRUNC) != 0;  // a descriptor is missing
  if (is_known && !is_cut && bool(fd_) == carries_descriptor(kind())) return Got::message;
  if (is_known && is_cut && !fd_ && carries_descriptor(kind())) return Got::no_room;
  fd_.reset();
  return Got::malformed;
}

}  // namespace softib::transport
