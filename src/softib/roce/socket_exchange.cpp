#include "softib/roce/socket_exchange.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "softib/fabric/shared_file.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::roce {
namespace {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

/// One socket, or the message without one that ends the answer.
struct Answer {
  enum Kind : std::uint32_t { others, responses, last, last_and_mixed };
  std::array<std::uint8_t, Gid::kSize> address{};
  std::uint32_t interface = 0;
  Kind kind = others;
};
/// At most so many requests are answered at once.
constexpr int kRequestsPerTurn = 64;

Error failure(const std::string& what, int code) {
  return Error{code, what + ": " + std::strerror(code)};
}

/// Sends a message with a descriptor, unless that is -1.
bool send_with(int socket, const void* content, std::size_t size, int fd) {
  iovec iov{const_cast<void*>(content), size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    auto* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

/// Receives a message of exactly this size, and its descriptor if it has one. Returns nullopt, with
/// errno EAGAIN if there is none.
std::optional<FileDescriptor> receive_with(int socket, void* content, std::size_t size) {
  iovec iov{content, size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const auto bytes = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0) return std::nullopt;
  FileDescriptor descriptor;
  const auto* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    descriptor = FileDescriptor(fd);
  }
  errno = EPROTO;
  const bool is_whole = bytes == static_cast<ssize_t>(size) && (message.msg_flags & MSG_TRUNC) == 0;
  return is_whole ? std::optional(std::move(descriptor)) : std::nullopt;
}

Error no_socket(int code) { return failure("cannot make a socket for the RoCE port", code); }

}  // namespace

Result<SocketLender> SocketLender::open(const fabric::SubnetFolder& folder) {
  const auto at = folder.open();
  if (!at) return at.error();
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return no_socket(errno);
  if (const auto bound = transport::bind_at(socket.get(), at->get(), kExchangeName); !bound) {
    return bound.error();
  }
  return SocketLender(std::move(socket));
}

void SocketLender::answer(const std::function<LentSockets(std::uint32_t slot)>& of_slot) {
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    std::uint32_t slot = 0;
    auto reply = receive_with(socket_.get(), &slot, sizeof slot);
    if (!reply && errno == EAGAIN) return;
    if (!reply || !*reply || slot >= QpnLayout::kSlots) continue;
    const auto lent = of_slot(slot);
    const auto send = [&](const Gid& address, Answer::Kind kind, int fd) {
      const Answer answer{address.bytes(), lent.interface, kind};
      return send_with(reply->get(), &answer, sizeof answer, fd);
    };
    for (const auto& each : lent.sockets) {
      if (!send(each.address, Answer::others, each.fds.others) ||
          !send(each.address, Answer::responses, each.fds.responses)) {
        break;
      }
    }
    (void)send(Gid(), lent.is_mixed ? Answer::last_and_mixed : Answer::last, -1);
    borrowers_[slot] = std::move(*reply);
  }
}

Result<BorrowedSockets> borrow_sockets(const fabric::SubnetFolder& folder, std::uint32_t slot) {
  const auto at = folder.open();
  if (!at) return at.error();
  const auto name = fabric::open_socket(at->get(), kExchangeName);
  if (!name) return name.error();
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return no_socket(errno);
  if (const int code = fabric::connect_socket(socket.get(), *name); code != 0) {
    return failure("cannot reach the process of the RoCE port", code);
  }
  std::array<int, 2> pair{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return no_socket(errno);
  }
  FileDescriptor ours(pair[0]);
  FileDescriptor theirs(pair[1]);
  if (!send_with(socket.get(), &slot, sizeof slot, theirs.get())) {
    return failure("cannot ask the process of the RoCE port", errno);
  }
  theirs.reset();
  BorrowedSockets borrowed;
  for (;;) {
    Answer answer;
    auto fd = receive_with(ours.get(), &answer, sizeof answer);
    if (!fd && errno == EAGAIN) {
      pollfd readable{ours.get(), POLLIN, 0};
      if (::poll(&readable, 1, kExchangeMilliseconds) == 1) continue;
      return Error{ETIMEDOUT, "the process of the RoCE port does not answer"};
    }
    if (!fd) return failure("no answer of the process of the RoCE port", errno);
    borrowed.interface = answer.interface;
    if (answer.kind >= Answer::last) {
      borrowed.is_mixed = answer.kind == Answer::last_and_mixed;
      borrowed.lender = std::move(ours);
      return borrowed;
    }
    if (!*fd) return failure("no socket in the answer of the process of the RoCE port", EPROTO);
    borrowed.sockets.push_back(
        {Gid(answer.address), std::move(*fd), answer.kind == Answer::responses});
  }
}

}  // namespace softib::roce
