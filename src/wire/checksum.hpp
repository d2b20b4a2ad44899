// The Internet checksum (RFC 1071), with or without a pseudo-header.
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

/// Where the checksum of a message of ICMP or ICMPv6 is, in bytes (RFC 792; RFC 4443, 2.1).
inline constexpr std::size_t kIcmpChecksumOffset = 2;

/// The checksum of a sequence of parts, of which all but the last have an even number of bytes.
class InternetChecksum {
 public:
  InternetChecksum& add(ConstBytes bytes);
  InternetChecksum& add(std::uint16_t word) {
    sum_ += word;
    return *this;
  }
  /// The pseudo-header of RFC 768; `length` is that of header and payload, in bytes.
  InternetChecksum& add_pseudo_header(Ipv4Address source, Ipv4Address destination,
                                      std::uint8_t protocol, std::uint16_t length);
  /// The pseudo-header of RFC 8200, 8.1.
  InternetChecksum& add_pseudo_header(const Ipv6Address& source, const Ipv6Address& destination,
                                      std::uint8_t protocol, std::uint32_t length);
  /// The checksum, in host order; 0 over data that contains its valid checksum.
  [[nodiscard]] std::uint16_t value() const { return static_cast<std::uint16_t>(~sum()); }
  /// The sum, not complemented: the value of a partial checksum.
  [[nodiscard]] std::uint16_t sum() const;

 private:
  std::uint64_t sum_ = 0;  ///< cannot overflow with the size of a packet
};

[[nodiscard]] inline std::uint16_t internet_checksum(ConstBytes bytes) {
  return InternetChecksum().add(bytes).value();
}

}  // namespace ipoib::wire
