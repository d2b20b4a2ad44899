// Addresses of the RDMA connection manager: IP addresses with ports, those of AF_IB, and the ports
// of HCAs that have them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "softib/core/node_addresses.hpp"
#include "wire/cm_messages.hpp"

namespace softib::rdma_cm {

namespace wire = ipoib::wire;

/// A port of an HCA of the process.
struct LocalPort {
  std::size_t hca = 0;  ///< counted from 0
  std::uint8_t number = 1;
  friend auto operator<=>(const LocalPort&, const LocalPort&) = default;
};

/// A port space, with the values of the ABI (enum rdma_ucm_port_space). Those of TCP and UDP end
/// with the number of the IP protocol.
enum class PortSpace : std::uint16_t { ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f };

/// The address of sockaddr_in and sockaddr_in6.
struct IpEndpoint {
  IpAddress address;
  std::uint16_t port = 0;
  std::uint32_t flow_info = 0;  ///< of IPv6, as are the next
  std::uint32_t scope_id = 0;
  friend bool operator==(const IpEndpoint&, const IpEndpoint&) = default;
};

/// The address of sockaddr_ib.
struct IbEndpoint {
  PKey pkey;
  std::uint32_t flow_info = 0;
  Gid gid;
  std::uint64_t service_id = 0;
  std::uint64_t service_mask = 0;  ///< which bits of the service ID count
  std::uint64_t scope_id = 0;
  friend bool operator==(const IbEndpoint&, const IbEndpoint&) = default;
};

/// An address; monostate stands for none.
using Address = std::variant<std::monostate, IpEndpoint, IbEndpoint>;

/// Whether the address names no host, port or GID.
[[nodiscard]] bool is_any(const Address& address);
/// Whether softib::is_loopback() holds.
[[nodiscard]] bool is_loopback(const Address& address);
/// Whether an ID that is bound to it takes what comes for any address: no host, or loopback, as
/// cma_any_addr() in Linux. Such an ID has no HCA.
[[nodiscard]] bool is_wildcard(const Address& address);
[[nodiscard]] bool is_multicast(const Address& address);
[[nodiscard]] bool is_same_kind(const Address& one, const Address& other);
/// Whether both name the same host, whatever their ports.
[[nodiscard]] bool is_same_host(const Address& one, const Address& other);
[[nodiscard]] std::uint16_t port_of(const Address& address);
[[nodiscard]] Address with_port(Address address, std::uint16_t port);
/// The wildcard address of the kind of `other`.
[[nodiscard]] Address any_like(const Address& other);
/// The service that an ID of the port space listens on, or connects to, at the address.
[[nodiscard]] wire::ServiceId service_id_of(PortSpace space, const Address& address);

}  // namespace softib::rdma_cm
