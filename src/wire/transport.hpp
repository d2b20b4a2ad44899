// The fields of IP, TCP and UDP headers that offloads read and write: checksums, and those that
// differ between the segments of a large packet.
//
//   IPv4 (RFC 791, 3.1)    2 total length   4 identification   6 flags, fragment   9 protocol
//                          10 checksum   12 addresses
//   IPv6 (RFC 8200, 3)     4 payload length   6 next header   8 addresses
//   TCP (RFC 9293, 3.1)    4 sequence number   12 data offset, flags   16 checksum
//   UDP (RFC 768)          2 destination port   4 length   6 checksum
#pragma once

#include "ipoib/bytes.hpp"
#include "ipoib/segmentation.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::wire {

inline constexpr std::uint8_t kTcp = 6;  ///< protocol number

[[nodiscard]] constexpr Segmentation::Kind kind_of(std::uint8_t protocol) {
  if (protocol == kTcp) return Segmentation::Kind::tcp;
  return protocol == kUdp ? Segmentation::Kind::udp : Segmentation::Kind::none;
}
/// The protocol number of a kind of segmentation, for TCP and UDP.
[[nodiscard]] constexpr std::uint8_t protocol_of(Segmentation::Kind kind) {
  return kind == Segmentation::Kind::udp ? kUdp : kTcp;
}

namespace ipv4 {
inline constexpr std::size_t kTotalLength = 2;
inline constexpr std::size_t kIdentification = 4;
inline constexpr std::size_t kFragment = 6;
inline constexpr std::size_t kProtocol = 9;
inline constexpr std::size_t kChecksum = 10;
inline constexpr std::size_t kAddresses = 12;
inline constexpr std::uint16_t kDontFragment = 0x4000;
inline constexpr std::uint16_t kIsFragment = 0x3fff;  ///< more fragments, or an offset
}  // namespace ipv4

namespace ipv6 {
inline constexpr std::size_t kPayloadLength = 4;
inline constexpr std::size_t kNextHeader = 6;
inline constexpr std::size_t kAddresses = 8;
}  // namespace ipv6

namespace tcp {
inline constexpr std::size_t kSequence = 4;
inline constexpr std::size_t kAcknowledgement = 8;
inline constexpr std::size_t kOffsetAndFlags = 12;
inline constexpr std::size_t kWindow = 14;
inline constexpr std::size_t kChecksum = 16;
inline constexpr std::size_t kUrgent = 18;
inline constexpr std::size_t kMinimumSize = 20;
inline constexpr std::size_t kMaximumSize = 60;
// Bits of the 16-bit word of data offset and flags.
inline constexpr std::uint16_t kFin = 0x01;
inline constexpr std::uint16_t kPush = 0x08;
inline constexpr std::uint16_t kAck = 0x10;
inline constexpr std::uint16_t kEcnEcho = 0x40;
inline constexpr std::uint16_t kCongestionReduced = 0x80;
inline constexpr std::uint16_t kFlags = 0x1ff;
}  // namespace tcp

namespace udp {
inline constexpr std::size_t kDestinationPort = 2;
inline constexpr std::size_t kLength = 4;
inline constexpr std::size_t kChecksum = 6;
}  // namespace udp

/// The maximum size of an IP packet.
inline constexpr std::size_t kMaxIpPacket = 65535;

/// Returns the IP packet of a frame; empty if its encapsulation header or its version field is not
/// that of IP.
[[nodiscard]] ConstBytes ip_of(ConstBytes frame);

/// The size of an IP packet according to its header. `ip` has at least 20 bytes.
[[nodiscard]] std::size_t ip_length(ConstBytes ip);

/// Parses an IP header, ignoring its length fields. `begin` is 0 if the header is incomplete or
/// that of a fragment. Inline, since every packet is parsed.
[[nodiscard]] inline UpperLayer upper_layer(ConstBytes ip) {
  if (ip_version(ip) == 6 && ip.size() >= Ipv6Header::kSize)
    return {ip[ipv6::kNextHeader], std::uint8_t{Ipv6Header::kSize}};
  if (ip_version(ip) != 4 || ip.size() < Ipv4Header::kMinimumSize) return {};
  const std::uint8_t size = Ipv4Header::size_by(ip[0]);
  const bool is_fragment = (load_be<std::uint16_t>(&ip[ipv4::kFragment]) & ipv4::kIsFragment) != 0;
  if (size < Ipv4Header::kMinimumSize || size > ip.size() || is_fragment) return {};
  return {ip[ipv4::kProtocol], size};
}

/// Size of the TCP or UDP header at the front of `transport`; 0 if it is incomplete.
[[nodiscard]] std::size_t transport_header_size(ConstBytes transport, Segmentation::Kind kind);

/// The sum of the pseudo-header of an IP packet without extension headers, with `length` bytes
/// after the IP header.
[[nodiscard]] InternetChecksum pseudo_header(ConstBytes ip, Segmentation::Kind kind,
                                             std::size_t length);

/// Writes the fields of `headers`, those of a large IP packet of `size` bytes with its TCP or UDP
/// header at `transport`, that depend on its size: lengths, the checksum of IPv4, and the partial
/// checksum of TCP or UDP, which is the sum of the pseudo-header.
void emit_large_headers(MutableBytes headers, Segmentation::Kind kind, std::size_t transport,
                        std::size_t size);

/// The value of the checksum field for a computed checksum. In UDP, 0 would mean "no checksum", so
/// 0xffff is sent (RFC 768); in IPv4 and TCP, 0 stays 0 (RFC 1624, 3), because receivers may
/// compare it.
[[nodiscard]] constexpr std::uint16_t checksum_as_sent(Segmentation::Kind kind,
                                                       std::uint16_t value) {
  return kind == Segmentation::Kind::udp && value == 0 ? std::uint16_t{0xffff} : value;
}

[[nodiscard]] constexpr std::size_t checksum_offset(Segmentation::Kind kind) {
  return kind == Segmentation::Kind::udp ? udp::kChecksum : tcp::kChecksum;
}

}  // namespace ipoib::wire
