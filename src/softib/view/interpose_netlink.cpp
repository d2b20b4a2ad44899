// The C functions by which programs reach the RDMA family of netlink: socket(2), send(2), sendto(2)
// and sendmsg(2). What goes to the kernel by such a socket is answered (netlink_socket.hpp); for
// all other sockets the next definition is called, so they stay async-signal-safe.
#undef _FORTIFY_SOURCE  // it would define some of these functions
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <vector>

#include "softib/core/next_function.hpp"
#include "softib/core/no_cancellation.hpp"
#include "softib/view/netlink_socket.hpp"

#define SOFTIB_ABI extern "C" __attribute__((visibility("default")))

namespace {

namespace view = softib::view;
using softib::NextFunction;

using Socket = int(int, int, int) noexcept;
using Send = ssize_t(int, const void*, std::size_t, int);
using SendTo = ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t);
using SendMessage = ssize_t(int, const msghdr*, int);

constinit NextFunction<Socket> next_socket{"socket"};
constinit NextFunction<Send> next_send{"send"};
constinit NextFunction<SendTo> next_sendto{"sendto"};
constinit NextFunction<SendMessage> next_sendmsg{"sendmsg"};

/// dlsym(3) is not async-signal-safe.
__attribute__((constructor)) void find_next_of_netlink() {
  (void)next_socket.get();
  (void)next_send.get();
  (void)next_sendto.get();
  (void)next_sendmsg.get();
}

/// Whether what is sent to an address goes to the kernel; null: the socket is not connected.
bool is_to_kernel(const void* address, std::size_t size) {
  if (address == nullptr) return true;
  sockaddr_nl to{};
  if (size < sizeof to) return false;
  std::memcpy(&to, address, sizeof to);
  return to.nl_pid == 0 && to.nl_groups == 0;
}

ssize_t answer(int fd, softib::ConstBytes sent) {
  const softib::NoCancellation whole;
  try {
    return view::answer_netlink(fd, sent);
  } catch (const std::exception&) {
    errno = ENOMEM;
    return -1;
  }
}

softib::ConstBytes bytes_of(const void* data, std::size_t size) {
  return {static_cast<const std::uint8_t*>(data), size};
}

/// The parts of a message in one piece.
std::vector<std::uint8_t> joined(const msghdr& message) {
  std::vector<std::uint8_t> whole;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const auto& part = message.msg_iov[i];
    const auto bytes = bytes_of(part.iov_base, part.iov_len);
    whole.insert(whole.end(), bytes.begin(), bytes.end());
  }
  return whole;
}

}  // namespace

SOFTIB_ABI int socket(int domain, int type, int protocol) noexcept {
  const bool is_ours = domain == AF_NETLINK && protocol == NETLINK_RDMA;
  return is_ours ? view::open_netlink_socket(type) : next_socket.get()(domain, type, protocol);
}

SOFTIB_ABI ssize_t send(int fd, const void* data, std::size_t size, int flags) {
  if (view::is_netlink_socket(fd)) return answer(fd, bytes_of(data, size));
  return next_send.get()(fd, data, size, flags);
}

SOFTIB_ABI ssize_t sendto(int fd, const void* data, std::size_t size, int flags, const sockaddr* to,
                          socklen_t to_size) {
  if (view::is_netlink_socket(fd) && is_to_kernel(to, to_size)) {
    return answer(fd, bytes_of(data, size));
  }
  return next_sendto.get()(fd, data, size, flags, to, to_size);
}

SOFTIB_ABI ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (view::is_netlink_socket(fd) && is_to_kernel(message->msg_name, message->msg_namelen)) {
    try {
      return answer(fd, joined(*message));
    } catch (const std::exception&) {
      errno = ENOMEM;
      return -1;
    }
  }
  return next_sendmsg.get()(fd, message, flags);
}
