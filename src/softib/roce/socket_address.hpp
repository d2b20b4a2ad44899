// Between GIDs and socket addresses.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "softib/core/network_order.hpp"
#include "softib/roce/icrc.hpp"

namespace softib::roce {

/// An IPv4 or IPv6 socket address.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  /// `interface` is the index of that of a link-local address.
  SocketAddress(const Gid& gid, std::uint16_t port, unsigned interface) {
    if (is_ipv4(gid)) {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = to_network(port);
      to.sin_addr.s_addr = to_network(ipv4_of(gid));
      std::memcpy(&storage, &to, size = sizeof to);
    } else {
      sockaddr_in6 to{};
      to.sin6_family = AF_INET6;
      to.sin6_port = to_network(port);
      std::ranges::copy(gid.bytes(), to.sin6_addr.s6_addr);
      const bool is_on_link = gid.prefix() == Gid::kLinkLocalPrefix || gid.is_multicast();
      to.sin6_scope_id = is_on_link ? interface : 0;
      std::memcpy(&storage, &to, size = sizeof to);
    }
  }
  SocketAddress() : size(sizeof storage) {}

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] Gid gid() const {
    if (storage.ss_family == AF_INET) {
      sockaddr_in from;
      std::memcpy(&from, &storage, sizeof from);
      return gid_of_ipv4(from_network(from.sin_addr.s_addr));
    }
    sockaddr_in6 from;
    std::memcpy(&from, &storage, sizeof from);
    return Gid(std::to_array(from.sin6_addr.s6_addr));
  }
  [[nodiscard]] std::uint16_t port() const {
    // Both structures have the port at the same place.
    sockaddr_in from;
    std::memcpy(&from, &storage, sizeof from);
    return from_network(from.sin_port);
  }
};

}  // namespace softib::roce
