// ICMP echo requests, as of ping(8).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ipoib/ibarp.h"

namespace ipoib::ibarp {

/// A socket for echo requests to one address (RFC 792; RFC 4443, 4.1 and 4.2). If
/// net.ipv4.ping_group_range says so, any user may have a socket for ping(8); otherwise only users
/// who may open raw sockets have one.
class Echo {
 public:
  /// `device` is the interface of a link-local address. Throws Failure.
  Echo(const ibarp_address& to, const std::string& device);
  ~Echo();
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  /// Sends a request, and waits for its reply. Returns the time in between, or nullopt if none came
  /// in time. Throws Failure if the request cannot be sent.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> exchange(
      std::uint16_t sequence, std::chrono::milliseconds patience) const;

 private:
  [[nodiscard]] bool is_reply(std::span<const std::uint8_t> packet, std::uint16_t sequence) const;

  bool is_ipv4_;
  bool is_raw_ = false;
  std::uint16_t id_;
  int socket_ = -1;
};

}  // namespace ipoib::ibarp
