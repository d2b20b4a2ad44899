#include "softib/view/netlink_socket.hpp"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "ipoib/file_descriptor.hpp"
#include "softib/transport/all_signals_blocked.hpp"
#include "softib/view/process_resources.hpp"
#include "softib/view/process_view.hpp"
#include "softib/view/rdma_netlink.hpp"

namespace softib::view {

namespace {

/// How long a program may leave its receive buffer full before it gets no more.
constexpr std::chrono::seconds kReaderPatience{10};

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
bool send_to(int from, std::uint32_t port_id, const Datagram& datagram, int flags) {
  const sockaddr_nl to{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = port_id, .nl_groups = 0};
  return ::syscall(SYS_sendto, from, datagram.data(), datagram.size(), flags, &to, sizeof to) >= 0;
}

/// Sends what does not fit into the receive buffer of the program, as the program reads it. It ends
/// with an error when the program closes its socket or stops reading.
void send_rest(const ipoib::FileDescriptor& from, std::uint32_t port_id,
               std::span<const Datagram> rest) {
  const timeval patience{kReaderPatience.count(), 0};
  (void)::setsockopt(from.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  for (const auto& datagram : rest) {
    if (!send_to(from.get(), port_id, datagram, 0)) return;
  }
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
  ipoib::FileDescriptor from(open_socket(SOCK_RAW | SOCK_CLOEXEC));
  if (port_id == 0 || !from) return -1;
  ProcessResources resources;
  auto answers = netlink_answers(sent, port_id, process_hcas(), resources);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (send_to(from.get(), port_id, answers[i], MSG_DONTWAIT)) continue;
    if (errno != EAGAIN || i == 0) return -1;  // it has not read earlier answers
    const transport::AllSignalsBlocked blocked;
    std::thread([from = std::move(from), port_id, answers = std::move(answers), i] {
      send_rest(from, port_id, std::span(answers).subspan(i));
    }).detach();
    break;
  }
  return static_cast<ssize_t>(sent.size());
}

}  // namespace softib::view
