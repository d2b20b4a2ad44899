// The part of DHCP that the link needs: recognising DHCP packets, and the identity of a message's
// client (RFC 2131, 2; RFC 2132, 9.14; RFC 4390). The rest of a message is copied.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {

inline constexpr std::uint16_t kDhcpServerPort = 67;
inline constexpr std::uint16_t kDhcpClientPort = 68;

enum class DhcpKind : std::uint8_t { request, reply };

/// Whether an IPv4 packet goes from a DHCP client's port to a server's, or back; nullopt for
/// fragments and for what relay agents and servers send each other. Nothing else is checked, since
/// this is called for every packet.
[[nodiscard]] inline std::optional<DhcpKind> dhcp_kind(ConstBytes packet, UpperLayer upper) {
  constexpr std::uint32_t kFromClient = kDhcpClientPort << 16 | kDhcpServerPort;
  constexpr std::uint32_t kFromServer = kDhcpServerPort << 16 | kDhcpClientPort;
  if (upper.protocol != kUdp || packet.size() < upper.begin + kUdpHeader) return {};
  const auto ports = load_be<std::uint32_t>(packet.data() + upper.begin);
  if (ports == kFromClient) return DhcpKind::request;
  if (ports == kFromServer) return DhcpKind::reply;
  return {};
}

/// The identity of the client of a message.
struct DhcpClient {
  static constexpr std::uint8_t kInfiniBand = 32;  ///< RFC 4390, 2.1

  std::uint8_t htype = kInfiniBand;
  std::uint8_t hlen = 0;
  std::array<std::uint8_t, 16> chaddr{};
  std::vector<std::uint8_t> identifier;  ///< with its type byte, at most 255; empty: none
  friend bool operator==(const DhcpClient&, const DhcpClient&) = default;
};

struct DhcpMessage {
  /// The maximum size of a packet that emit() writes.
  static constexpr std::size_t kMaxSize = 4096;

  DhcpKind kind = DhcpKind::request;
  std::uint32_t xid = 0;
  bool broadcast = false;      ///< the flag of RFC 2131, 2: reply by broadcast
  bool authenticated = false;  ///< by RFC 3118: must not be changed
  Ipv4Address source;          ///< of the packet
  Ipv4Address ciaddr;
  Ipv4Address giaddr;  ///< of the relay agent; unspecified: none
  DhcpClient client;
  friend bool operator==(const DhcpMessage&, const DhcpMessage&) = default;

  /// Parses a packet. Returns nullopt unless dhcp_kind() recognises it, its lengths and checksums
  /// are valid, its options are well-formed, and there is at most one client identifier.
  [[nodiscard]] static std::optional<DhcpMessage> parse(ConstBytes packet);
  /// Writes `original`, which parse() accepts, with this message's broadcast flag and client.
  /// Returns the size of the packet, at least that of the original; 0 if `to` is too small.
  [[nodiscard]] std::size_t emit(ConstBytes original, MutableBytes to) const;
};

/// The client identifier for a client that has none (RFC 4390, 2.1): that of RFC 4361, 6.1, with
/// the P_Key as IAID and the port GUID in a DUID-LL.
[[nodiscard]] std::vector<std::uint8_t> dhcp_client_identifier(PKey pkey, Guid port);
/// The client identifier for a client with an Ethernet address, of which the last four bytes are
/// the IAID.
[[nodiscard]] std::vector<std::uint8_t> dhcp_client_identifier(MacAddress mac);

}  // namespace ipoib::wire
