// The part of IPv6 that the link needs (RFC 8200, 3).
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

inline constexpr std::uint8_t kIcmpv6 = 58;  ///< next header

struct Ipv6Header {
  static constexpr std::size_t kSize = 40;

  Ipv6Address source;
  Ipv6Address destination;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;      ///< 20 bits
  std::uint16_t payload_length = 0;  ///< bytes after this header
  std::uint8_t next_header = 0;
  std::uint8_t hop_limit = 0;

  /// Returns nullopt unless the version is 6 and the packet contains the payload.
  [[nodiscard]] static std::optional<Ipv6Header> parse(ConstBytes packet);
  /// Writes kSize bytes; `to` has room for them.
  void emit(MutableBytes to) const;
  friend bool operator==(const Ipv6Header&, const Ipv6Header&) = default;
};

/// The link-local address of a port (RFC 4391, 8): its GUID with the "u" bit set, as in Linux. This
/// inverts the bit of a plain EUI-64, and keeps that of a modified one.
[[nodiscard]] Ipv6Address link_local_address(Guid guid);

}  // namespace ipoib::wire
