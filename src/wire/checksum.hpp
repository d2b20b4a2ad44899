// The Internet checksum (RFC 1071), alone and with the pseudo-headers of UDP and ICMPv6.
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

/// Sums up pieces of which all but the last have an even number of octets.
class InternetChecksum {
 public:
  InternetChecksum& add(ConstBytes bytes);
  InternetChecksum& add(std::uint16_t word) {
    sum_ += word;
    return *this;
  }
  /// The pseudo-header of RFC 768; `length` in octets, header and payload.
  InternetChecksum& add_pseudo_header(Ipv4Address source, Ipv4Address destination,
                                      std::uint8_t protocol, std::uint16_t length);
  /// The pseudo-header of RFC 8200, 8.1.
  InternetChecksum& add_pseudo_header(const Ipv6Address& source, const Ipv6Address& destination,
                                      std::uint8_t protocol, std::uint32_t length);
  /// In host order, ready to be stored big-endian; 0 over octets that contain their checksum.
  [[nodiscard]] std::uint16_t value() const { return static_cast<std::uint16_t>(~sum()); }
  /// The sum itself, as it stands in the field of who leaves the rest to the next (a partial
  /// checksum).
  [[nodiscard]] std::uint16_t sum() const;

 private:
  /// 64 bits hold the carries of far more octets than a packet has.
  std::uint64_t sum_ = 0;
};

[[nodiscard]] inline std::uint16_t internet_checksum(ConstBytes bytes) {
  return InternetChecksum().add(bytes).value();
}

}  // namespace ipoib::wire
