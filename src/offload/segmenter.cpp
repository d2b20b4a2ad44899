#include "offload/segmenter.hpp"

#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using Kind = Segmentation::Kind;

std::uint16_t word(const std::uint8_t* at) { return load_be<std::uint16_t>(at); }
void store_word(std::uint8_t* at, std::uint16_t value) { store_be(at, value); }

/// Where the header of TCP or UDP can begin: behind that of IP, or behind extensions of IPv6.
bool may_begin_at(ConstBytes packet, Kind kind, std::size_t transport) {
  const auto upper = wire::upper_layer(packet);
  if (upper.begin == 0 || wire::ip_length(packet) != packet.size()) return false;
  return (transport == upper.begin && wire::kind_of(upper.protocol) == kind) ||
         (transport > upper.begin && wire::ip_version(packet) == 6);
}

}  // namespace

std::optional<Segmentation> plan_segments(ConstBytes packet, Kind kind, std::size_t transport,
                                          std::size_t size) {
  if (kind == Kind::none || packet.size() > wire::kMaxIpPacket ||
      !may_begin_at(packet, kind, transport) || transport >= packet.size()) {
    return std::nullopt;
  }
  const std::size_t own = wire::transport_header_size(packet.subspan(transport), kind);
  const std::size_t payload = transport + own;
  if (own == 0 || payload > kMaxHeaders || payload >= packet.size() || size == 0 ||
      payload + size * kMaxSegments < packet.size()) {
    return std::nullopt;
  }
  return Segmentation{kind, static_cast<std::uint16_t>(transport),
                      static_cast<std::uint16_t>(payload), static_cast<std::uint16_t>(size)};
}

bool complete_checksum(MutableBytes packet, std::size_t start, std::size_t offset) {
  constexpr std::size_t kField = 2;
  if (start > packet.size() || offset + kField > packet.size() - start) return false;
  const auto covered = packet.subspan(start);
  const auto kind = offset == wire::udp::kChecksum ? Kind::udp : Kind::none;
  // The field holds the sum of the pseudo-header, which is to be in the sum.
  store_word(&covered[offset], wire::checksum_as_sent(kind, wire::internet_checksum(covered)));
  return true;
}

bool is_plain(const Frame& large, std::size_t ip) {
  const bool is_ipv4 = wire::ip_version(large.bytes().subspan(ip)) == 4;
  return large.segmentation().transport ==
         ip + (is_ipv4 ? wire::Ipv4Header::kMinimumSize : wire::Ipv6Header::kSize);
}

wire::Segmenter segmenter_of(const Frame& large, std::size_t ip, bool device_sums) {
  const auto& plan = large.segmentation();
  const auto headers = large.bytes().first(plan.payload);
  wire::Segmenter segmenter(headers, ip, plan, large.bytes().subspan(plan.payload));
  if (device_sums && is_plain(large, ip)) return segmenter;
  // With its own length in it, the packet has the sum of the pseudo-header in the field of its
  // checksum. (Addresses would not do: with a routing header the last one is elsewhere.)
  const auto partial = word(&headers[plan.transport + wire::checksum_offset(plan.kind)]);
  const auto length = large.size() - plan.transport;
  segmenter.sum_up(wire::InternetChecksum().add(partial).add(static_cast<std::uint16_t>(~length)));
  return segmenter;
}

}  // namespace ipoib::offload
