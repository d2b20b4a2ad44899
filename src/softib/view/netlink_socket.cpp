#include "softib/view/netlink_socket.hpp"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "ipoib/file_descriptor.hpp"
#include "softib/view/process_view.hpp"
#include "softib/view/rdma_netlink.hpp"

namespace softib::view {

namespace {

constinit std::atomic<bool> is_any_open = false;

int option_of(int fd, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/// The number of a socket, which gets one if it is not bound; 0 if that fails.
std::uint32_t port_id_of(int fd) {
  sockaddr_nl address{};
  socklen_t size = sizeof address;
  const auto ask = [&] {
    return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  };
  if (!ask() || address.nl_pid != 0) return address.nl_pid;
  const sockaddr_nl any{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 0};
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) return 0;
  return ask() ? address.nl_pid : 0;
}

// By system calls, since this library defines socket() and sendto().
int open_socket(int type) {
  return static_cast<int>(::syscall(SYS_socket, AF_NETLINK, type, NETLINK_USERSOCK));
}
bool send_to(int from, std::uint32_t port_id, const Datagram& datagram) {
  const sockaddr_nl to{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = port_id, .nl_groups = 0};
  return ::syscall(SYS_sendto, from, datagram.data(), datagram.size(), MSG_DONTWAIT, &to,
                   sizeof to) >= 0;
}

}  // namespace

int open_netlink_socket(int type) {
  const int fd = open_socket(type);
  if (fd >= 0) is_any_open.store(true, std::memory_order_relaxed);
  return fd;
}

bool is_netlink_socket(int fd) {
  if (!is_any_open.load(std::memory_order_relaxed)) return false;
  return option_of(fd, SO_DOMAIN) == AF_NETLINK && option_of(fd, SO_PROTOCOL) == NETLINK_USERSOCK;
}

ssize_t answer_netlink(int fd, ConstBytes sent) {
  const auto port_id = port_id_of(fd);
  const ipoib::FileDescriptor from(open_socket(SOCK_RAW | SOCK_CLOEXEC));
  if (port_id == 0 || !from) return -1;
  const auto hcas = process_hcas();
  for (const auto& datagram : netlink_answers(sent, port_id, hcas)) {
    if (!send_to(from.get(), port_id, datagram)) return -1;
  }
  return static_cast<ssize_t>(sent.size());
}

}  // namespace softib::view
