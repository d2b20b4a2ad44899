#include "link/flow.hpp"

#include "link/host_addresses.hpp"
#include "wire/transport.hpp"

namespace ipoib::link {
namespace {

constexpr std::uint8_t kSctp = 132;  // its header begins with ports as well (RFC 9260, 3.1)
constexpr std::size_t kPorts = 4;    // bytes

/// Whether the host has sent a packet from this address itself. With IPv6, only the addresses of
/// the interface are known.
std::optional<bool> is_of_host(const IpAddress& source, const HostAddresses& host) {
  if (const auto* const ipv4 = std::get_if<Ipv4Address>(&source)) {
    return ipv4->is_unspecified() || host.is_local(*ipv4);
  }
  return host.is_own(source) ? std::optional(true) : std::nullopt;
}

}  // namespace

void read_headers(ConstBytes packet, const HostAddresses& host, Flow& flow) {
  const bool is_ipv4 = wire::ip_version(packet) == 4;
  const auto first = load_be<std::uint16_t>(packet.data());
  flow.tos = static_cast<std::uint8_t>(is_ipv4 ? first : first >> 4);
  flow.protocol = packet[is_ipv4 ? wire::ipv4::kProtocol : wire::ipv6::kNextHeader];
  flow.is_of_host = is_of_host(flow.source, host);
  const auto upper = wire::upper_layer(packet);
  const bool knows_ports =
      upper.protocol == wire::kTcp || upper.protocol == wire::kUdp || upper.protocol == kSctp;
  if (upper.begin == 0 || !knows_ports || packet.size() < upper.begin + kPorts) return;
  flow.has_ports = true;
  flow.source_port = load_be<std::uint16_t>(&packet[upper.begin]);
  flow.destination_port = load_be<std::uint16_t>(&packet[upper.begin + std::size_t{2}]);
}

}  // namespace ipoib::link
