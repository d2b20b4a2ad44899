// ICMP echo requests, as of ping(8).
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "host_route.hpp"

namespace ipoib::ibarp {

/// A socket for echo requests to one address, or to the hosts of a group or on a link (RFC 792;
/// RFC 4443, 4.1 and 4.2). If
/// net.ipv4.ping_group_range says so, any user may have a socket for ping(8); otherwise only users
/// who may open raw sockets have one.
class Echo {
 public:
  /// `route` is that to the address. Throws Failure if this user may have no socket.
  Echo(const ibarp_address& to, const HostRoute& route);
  ~Echo();
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  [[nodiscard]] bool is_to_group() const { return is_group_; }
  /// Sends a request, and waits for its reply, which is not one of this host. Returns the time in
  /// between, or nullopt if none came in time. Throws Failure if the request cannot be sent.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> exchange(
      std::uint16_t sequence, std::chrono::milliseconds patience) const;

 private:
  [[nodiscard]] bool send(std::span<const std::uint8_t> request) const;
  [[nodiscard]] bool is_reply(std::span<const std::uint8_t> packet, std::uint16_t sequence) const;
  [[nodiscard]] bool is_own(const sockaddr_storage& source) const;

  bool is_ipv4_;
  bool is_raw_ = false;
  bool is_group_;  ///< or a broadcast: the address is not that of the host that answers
  std::optional<ibarp_address> own_;
  sockaddr_storage to_{};
  std::uint16_t id_;
  int socket_ = -1;
};

}  // namespace ipoib::ibarp
