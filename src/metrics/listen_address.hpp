// Where metrics are served.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ipoib/ip.hpp"
#include "ipoib/result.hpp"

namespace ipoib::metrics {

struct ListenAddress {
  IpAddress host;  ///< unspecified: all addresses of the host
  std::uint16_t port = 0;

  /// Parses "9100" (on the loopback address), "10.0.0.1:9100" or "[fd00::1]:9100"; port 0 stands
  /// for one that is free. Names are not accepted: what they stand for may change. Fails with
  /// EINVAL and the reason.
  [[nodiscard]] static Result<ListenAddress> parse(std::string_view text);
  /// "10.0.0.1:9100", "[fd00::1]:9100"
  [[nodiscard]] std::string text() const;
  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

}  // namespace ipoib::metrics
