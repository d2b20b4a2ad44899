// DHCP as far as a link is concerned: which packets are DHCP, and how a message says who its client
// is (RFC 2131, 2; RFC 2132, 9.14; RFC 4390). Everything else in a message is carried along.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {

inline constexpr std::uint16_t kDhcpServerPort = 67;
inline constexpr std::uint16_t kDhcpClientPort = 68;

enum class DhcpKind : std::uint8_t { request, reply };

/// Whether an IPv4 packet goes from a DHCP client's port to a server's, or back; nullopt for
/// fragments and for what relay agents and servers send each other. Checks nothing else: it is
/// called for every packet.
[[nodiscard]] inline std::optional<DhcpKind> dhcp_kind(ConstBytes packet, UpperLayer upper) {
  constexpr std::uint32_t kFromClient = kDhcpClientPort << 16 | kDhcpServerPort;
  constexpr std::uint32_t kFromServer = kDhcpServerPort << 16 | kDhcpClientPort;
  if (upper.protocol != kUdp || packet.size() < upper.begin + kUdpHeader) return {};
  const auto ports = load_be<std::uint32_t>(packet.data() + upper.begin);
  if (ports == kFromClient) return DhcpKind::request;
  if (ports == kFromServer) return DhcpKind::reply;
  return {};
}

/// Who the client of a message is.
struct DhcpClient {
  static constexpr std::uint8_t kInfiniBand = 32;  ///< RFC 4390, 2.1

  std::uint8_t htype = kInfiniBand;
  std::uint8_t hlen = 0;
  std::array<std::uint8_t, 16> chaddr{};
  std::vector<std::uint8_t> identifier;  ///< with its type octet, at most 255; empty: none
  friend bool operator==(const DhcpClient&, const DhcpClient&) = default;
};

struct DhcpMessage {
  /// Octets of the largest packet that emit() makes.
  static constexpr std::size_t kMaxSize = 4096;

  DhcpKind kind = DhcpKind::request;
  std::uint32_t xid = 0;
  bool broadcast = false;      ///< the flag of RFC 2131, 2: answer by broadcast
  bool authenticated = false;  ///< by RFC 3118: any change would be noticed
  Ipv4Address source;          ///< of the packet
  Ipv4Address ciaddr;
  Ipv4Address giaddr;  ///< of the relay agent; unspecified: none
  DhcpClient client;
  friend bool operator==(const DhcpMessage&, const DhcpMessage&) = default;

  /// A packet that dhcp_kind() knows. Nothing unless its lengths and checksums hold, its options
  /// end in order, and there is one client identifier at most.
  [[nodiscard]] static std::optional<DhcpMessage> parse(ConstBytes packet);
  /// Writes `original`, which has been parsed, with this message's broadcast flag and client.
  /// Returns the size of the packet, which is that of the original or more; 0 when `to` has no
  /// room.
  [[nodiscard]] std::size_t emit(ConstBytes original, MutableBytes to) const;
};

/// A client identifier as RFC 4390, 2.1 wants it for a client that has none: that of RFC 4361, 6.1,
/// with the partition for the interface (IAID) and the port for the machine (DUID-LL).
[[nodiscard]] std::vector<std::uint8_t> dhcp_client_identifier(PKey pkey, Guid port);

}  // namespace ipoib::wire
