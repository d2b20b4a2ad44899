#include "linux/route_feed.hpp"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "linux/netlink_message.hpp"

namespace ipoib::linux {
namespace {

/// The buffer for bursts: a routing daemon changes ten thousand routes at a time, and an
/// announcement takes about a kilobyte. Without the privilege for so much, an overrun causes one
/// dump.
constexpr int kReceiveBuffer = 16 << 20;
/// A notification about a route with many next hops takes some kilobytes.
constexpr std::size_t kMaxNotification = std::size_t{32} << 10;

constexpr std::uint32_t mask_of(int group) { return std::uint32_t{1} << (group - 1); }

constexpr std::uint32_t kGroups = mask_of(RTNLGRP_LINK) | mask_of(RTNLGRP_IPV4_ROUTE) |
                                  mask_of(RTNLGRP_IPV6_ROUTE) | mask_of(RTNLGRP_IPV4_RULE) |
                                  mask_of(RTNLGRP_IPV6_RULE) | mask_of(RTNLGRP_NEXTHOP);

Error feed_error(const char* what) {
  return {errno, std::string(what) + ": " + std::strerror(errno)};
}

}  // namespace

RouteFeed::RouteFeed(FileDescriptor socket, InterfaceName interface)
    : socket_(std::move(socket)), interface_(std::move(interface)), buffer_(kMaxNotification) {}

Result<std::unique_ptr<RouteFeed>> RouteFeed::open(InterfaceName interface) {
  FileDescriptor socket(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!socket) return feed_error("cannot open a netlink socket");
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer,
                   sizeof kReceiveBuffer) < 0) {
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
  }
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kGroups;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    return feed_error("cannot subscribe to changes of routes");
  }
  return std::unique_ptr<RouteFeed>(new RouteFeed(std::move(socket), std::move(interface)));
}

void RouteFeed::read(std::vector<RouteChange>& changes) {
  for (std::size_t i = 0; i < kMaxReads; ++i) {
    sockaddr_nl from{};
    socklen_t from_size = sizeof from;
    const ssize_t size = ::recvfrom(socket_.get(), buffer_.data(), buffer_.size(), MSG_TRUNC,
                                    reinterpret_cast<sockaddr*>(&from), &from_size);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    // Notifications were lost: mostly ENOBUFS, which is reported once.
    if (size < 0 || static_cast<std::size_t>(size) > buffer_.size()) {
      changes.emplace_back(RoutesUnknown{});
      continue;
    }
    const bool is_of_kernel = from.nl_pid == 0;
    if (is_of_kernel) take(static_cast<std::size_t>(size), changes);
  }
}

void RouteFeed::take(std::size_t size, std::vector<RouteChange>& changes) {
  auto* message = reinterpret_cast<nlmsghdr*>(buffer_.data());
  int left = static_cast<int>(size);
  for (; nlmsg_ok(message, left) != 0; message = nlmsg_next(message, &left)) {
    if (message->nlmsg_type == RTM_NEWLINK) {
      take_link(message, changes);
    } else if (auto change = route_change_of(message, interface_)) {
      changes.push_back(std::move(*change));
    }
  }
}

/// Follows the state of the interface. When it goes down, the kernel removes IPv4 routes in
/// silence. When it comes up, next hops of routes through several interfaces come back in silence.
void RouteFeed::take_link(nlmsghdr* message, std::vector<RouteChange>& changes) {
  const auto* const about = header_of<ifinfomsg>(message);
  if (about == nullptr || about->ifi_index != interface_.index) return;
  const bool is_up = (about->ifi_flags & IFF_UP) != 0;
  if (std::exchange(is_up_, is_up) == is_up) return;
  if (is_up) {
    changes.emplace_back(RoutesUnknown{});
  } else {
    changes.emplace_back(RoutesCleared{});
  }
}

}  // namespace ipoib::linux
