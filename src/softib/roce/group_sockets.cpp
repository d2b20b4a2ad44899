#include "softib/roce/group_sockets.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "softib/roce/udp_socket.hpp"

namespace softib::roce {

using ipoib::Error;
using ipoib::Result;

GroupSockets::GroupSockets() : ready_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!ready_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

Result<void> GroupSockets::set(std::span<const Gid> groups, unsigned interface) {
  if (interface != interface_) sockets_.clear();
  interface_ = interface;
  // Closing a socket leaves its group, and ends its place in the set of epoll.
  std::erase_if(sockets_, [&](const auto& each) {
    return std::ranges::find(groups, each.first) == groups.end();
  });
  Result<void> result;
  for (const auto& group : groups) {
    if (sockets_.contains(group)) continue;
    if (auto joined = join(group); !joined && result) result = joined;
  }
  return result;
}

void GroupSockets::move_to(unsigned interface) {
  if (interface == interface_) return;
  std::vector<Gid> groups;
  for (const auto& each : sockets_) groups.push_back(each.first);
  (void)set(groups, interface);
}

Result<void> GroupSockets::join(const Gid& group) {
  auto socket = open_group_socket(group, interface_);
  if (!socket) return socket.error();
  auto& added = sockets_[group] = {group, std::move(*socket)};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &added;
  if (::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, added.fd.get(), &event) != 0) {
    const Error error{errno, std::string("cannot wait for packets to a multicast group: ") +
                                 std::strerror(errno)};
    sockets_.erase(group);
    return error;
  }
  return {};
}

std::span<const AddressSocket* const> GroupSockets::readable() {
  readable_.clear();
  if (sockets_.empty()) return {};
  std::array<epoll_event, kMostReady> events;
  const int count = ::epoll_wait(ready_.get(), events.data(), kMostReady, 0);
  for (int i = 0; i < count; ++i) {
    readable_.push_back(
        static_cast<const AddressSocket*>(events[static_cast<std::size_t>(i)].data.ptr));
  }
  return readable_;
}

}  // namespace softib::roce
