// The header that the IP addressing annex puts before the user's private data of REQ and SIDR_REQ
// (IBA A11): who connects to which IP address.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "wire/cm_messages.hpp"

namespace ipoib::wire {

struct CmIpHeader {
  static constexpr std::size_t kSize = 36;

  std::uint16_t source_port = 0;
  IpAddress source;
  IpAddress destination;  ///< of the same family

  /// Returns nullopt unless the private data begins with a header of version 0.0 for IPv4 or IPv6.
  [[nodiscard]] static std::optional<CmIpHeader> parse(ConstBytes private_data);
  void emit(MutableBytes to) const;  ///< kSize bytes
  friend bool operator==(const CmIpHeader&, const CmIpHeader&) = default;
};

/// IBA A11.2.2.1: the service ID of a port of an IP protocol.
[[nodiscard]] constexpr ServiceId ip_service_id(std::uint8_t protocol, std::uint16_t port) {
  return ServiceId(std::uint64_t{0x01} << 24 | std::uint64_t{protocol} << 16 | port);
}

}  // namespace ipoib::wire
