// The ICRC of RoCE v2 (IBA annex A17.9.5): the CRC of Ethernet over eight bytes of ones in place of
// an LRH, the IP and UDP headers and the packet, with the fields that routers change as ones. It is
// stored in little-endian order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "softib/core/ip_gid.hpp"

namespace softib::roce {

inline constexpr std::uint16_t kUdpPort = 4791;

/// Addresses are GIDs: IPv6 addresses, or IPv4 addresses as ::ffff:a.b.c.d.
struct Flow {
  Gid source;
  Gid destination;
  std::uint16_t source_port = 0;

  [[nodiscard]] bool is_ipv4() const { return softib::is_ipv4(destination); }
};

/// Computes the ICRC of one packet.
class Icrc {
 public:
  /// `udp_payload` is the number of bytes from the BTH to the end of the ICRC; `identification`
  /// that of an IPv4 header, whose flags are DF alone. `front` are the first bytes of the packet,
  /// with the whole BTH.
  Icrc(const Flow& flow, std::size_t udp_payload, std::uint16_t identification, ConstBytes front);
  void add(ConstBytes bytes);
  [[nodiscard]] std::uint32_t value() const { return crc_; }

 private:
  std::uint32_t crc_;
};

/// The ICRC covers the identification of an IPv4 header, which a program does not see when it
/// receives from a UDP socket. A CRC is linear, so an ICRC that is computed with the identification
/// 0 differs from the right one by one of 65,536 values, which depend on the length. What is left
/// is a check of 16 bits.
class IdentificationCheck {
 public:
  /// Whether an identification can make this difference in a packet of `udp_payload` bytes, BTH to
  /// ICRC.
  [[nodiscard]] bool explains(std::uint32_t difference, std::size_t udp_payload);

 private:
  /// The differences that the 16 bits make, each with a leading bit that no later one has; 0 in the
  /// last one: not computed yet.
  using Basis = std::array<std::uint32_t, 16>;
  [[nodiscard]] static Basis basis_of(std::size_t udp_payload);

  std::vector<Basis> by_length_;  ///< by udp_payload / 4
};

}  // namespace softib::roce
