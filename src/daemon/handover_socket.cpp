#include "daemon/handover_socket.hpp"

#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace ipoib::daemon::handover {

namespace {

/// Room for more than one, so that the kernel does not leave descriptors out in silence.
constexpr std::size_t kControlRoom = CMSG_SPACE(4 * sizeof(int));

Error error_of(const char* what) {
  return Error(errno, std::string(what) + ": " + std::generic_category().message(errno));
}

/// Takes all descriptors, so that none stays open.
std::vector<FileDescriptor> descriptors_of(msghdr& header) {
  std::vector<FileDescriptor> out;
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(at) + i * sizeof(int), sizeof descriptor);
      out.emplace_back(descriptor);
    }
  }
  return out;
}

}  // namespace

Result<void> Connection::send(ConstBytes bytes, int descriptor) {
  iovec piece{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};  // only read
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
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
  alignas(cmsghdr) std::array<char, kControlRoom> control{};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const int flags = MSG_CMSG_CLOEXEC | (blocks_ ? 0 : MSG_DONTWAIT);
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket_.get(), &header, flags);
    // Reported once if the peer has closed its end without reading all, before what it has sent.
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0) return error_of("the other daemon");
  auto descriptors = descriptors_of(header);
  if (size == 0) return std::optional<Received>();
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || descriptors.size() > 1) {
    return Error(EPROTO, "a message that is too long");
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
