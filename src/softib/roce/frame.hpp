// Between the packets of an HCA, which begin with LRH and GRH, and what UDP carries of them, which
// begins with the BTH and ends with the ICRC.
//
// A packet of a RoCE port always has a GRH, with the IP addresses as GIDs. Its LIDs are 0, but that
// of a multicast packet is kRoceMulticastLid.
#pragma once

#include <optional>

#include "softib/core/packet_sink.hpp"
#include "softib/roce/icrc.hpp"
#include "wire/packet.hpp"

namespace softib::roce {

/// Bytes of LRH and GRH.
inline constexpr std::size_t kRouteBytes = ipoib::wire::Lrh::kSize + ipoib::wire::Grh::kSize;
/// Least bytes of a UDP payload: BTH and ICRC.
inline constexpr std::size_t kLeastPayload = ipoib::wire::Bth::kSize + ipoib::wire::kIcrcSize;
/// Most bytes of a UDP payload.
inline constexpr std::size_t kMostPayload = kMaxPacketBytes - kRouteBytes + ipoib::wire::kIcrcSize;

/// What the IP header of a packet says beside its addresses.
struct IpOptions {
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  friend bool operator==(const IpOptions&, const IpOptions&) = default;
};

/// Where a packet is to go.
struct Route {
  Flow flow;
  IpOptions options;
};
/// Reads the route of a packet from its first kRouteBytes and its BTH; the UDP source port follows
/// from the flow label, as the Linux kernel computes it (rdma_get_udp_sport()). Returns nullopt if
/// it has no GRH.
[[nodiscard]] std::optional<Route> route_of(ConstBytes headers);

[[nodiscard]] std::uint16_t source_port_of(std::uint32_t flow_label);

/// The destination QPN in a BTH.
[[nodiscard]] Qpn destination_of(ConstBytes bth);

/// Writes LRH and GRH in front of a received UDP payload without its ICRC.
void write_route(const Flow& flow, const IpOptions& options, std::size_t packet_bytes,
                 std::span<std::uint8_t, kRouteBytes> to);

}  // namespace softib::roce
