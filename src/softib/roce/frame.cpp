#include "softib/roce/frame.hpp"

#include "ipoib/bytes.hpp"

namespace softib::roce {

using ipoib::wire::Grh;
using ipoib::wire::Lrh;

namespace {

/// Dynamic ports, from which the kernel takes the source ports of RoCE v2.
constexpr std::uint16_t kFirstSourcePort = 0xc000;

}  // namespace

std::uint16_t source_port_of(std::uint32_t flow_label) {
  constexpr std::uint32_t kLowBits = 0x3fff;
  const auto folded = (flow_label & kLowBits) ^ (flow_label >> 14);
  return static_cast<std::uint16_t>(folded | kFirstSourcePort);
}

Qpn destination_of(ConstBytes bth) {
  return Qpn(ipoib::load_be<std::uint32_t>(bth.data() + 4) & 0xffffff);
}

std::optional<Route> route_of(ConstBytes headers) {
  if (headers.size() < kRouteBytes + ipoib::wire::Bth::kSize) return std::nullopt;
  const auto lrh = Lrh::parse(headers);
  if (!lrh || lrh->next_header != Lrh::kLnhGlobal) return std::nullopt;
  const auto grh = Grh::parse(headers.subspan(Lrh::kSize));
  if (!grh) return std::nullopt;
  return Route{{grh->sgid, grh->dgid, source_port_of(grh->flow_label)},
               {grh->traffic_class, grh->hop_limit}};
}

void write_route(const Flow& flow, const IpOptions& options, std::size_t packet_bytes,
                 std::span<std::uint8_t, kRouteBytes> to) {
  Lrh lrh;
  lrh.next_header = Lrh::kLnhGlobal;
  lrh.dlid = is_ip_multicast(flow.destination) ? kRoceMulticastLid : Lid();
  const auto after_grh = packet_bytes + ipoib::wire::kIcrcSize;
  lrh.length = static_cast<std::uint16_t>((kRouteBytes + after_grh) / Lrh::kWord);
  lrh.emit(to.first(Lrh::kSize));
  Grh grh;
  grh.traffic_class = options.traffic_class;
  grh.hop_limit = options.hop_limit;
  grh.payload_length = static_cast<std::uint16_t>(after_grh);
  grh.sgid = flow.source;
  grh.dgid = flow.destination;
  grh.emit(to.subspan(Lrh::kSize));
}

}  // namespace softib::roce
