#include "daemon/interfaces/handover_socket.hpp"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <system_error>

#include "ipoib/ancillary_descriptors.hpp"

namespace ipoib::daemon::handover {

namespace {

Error error_of(const char* what) {
  return Error(errno, std::string(what) + ": " + std::generic_category().message(errno));
}

}  // namespace

Result<void> Connection::send(ConstBytes bytes, int descriptor) {
  iovec piece{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};  // only read
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  AncillaryDescriptors control;
  control.attach(header, {&descriptor, descriptor >= 0 ? 1U : 0U});
  const int flags = MSG_NOSIGNAL | (blocks_ ? 0 : MSG_DONTWAIT);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket_.get(), &header, flags);
  } while (sent < 0 && (errno == EINTR || errno == ECONNRESET));
  return sent < 0 ? Result<void>(error_of("cannot send to the other daemon")) : Result<void>();
}

Result<std::optional<Received>> Connection::receive() {
  std::vector<std::uint8_t> bytes(kMaxMessage);
  iovec piece{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  AncillaryDescriptors control;
  control.make_room(header, 1);
  const int flags = MSG_CMSG_CLOEXEC | (blocks_ ? 0 : MSG_DONTWAIT);
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket_.get(), &header, flags);
    // ECONNRESET is reported once, before what the peer has sent, if it has closed its end without
    // reading all.
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0) return error_of("the other daemon");
  auto descriptors = AncillaryDescriptors::take(header);
  if (size == 0) return std::optional<Received>();
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return Error(EPROTO,
                 "the other daemon sends a message that is too long, or has lost a descriptor: it "
                 "is of another version, or this process has no free descriptor");
  }
  auto message = parse(ConstBytes(bytes).first(static_cast<std::size_t>(size)));
  if (!message) return message.error();
  Received out{std::move(*message), {}};
  if (!descriptors.empty()) out.descriptor = std::move(descriptors.front());
  return std::optional<Received>(std::move(out));
}

void Connection::set_timeout(std::chrono::milliseconds timeout) {
  blocks_ = timeout.count() > 0;
  timeval limit{};
  limit.tv_sec = timeout.count() / 1000;
  limit.tv_usec = timeout.count() % 1000 * 1000;
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace ipoib::daemon::handover
