#include "offload/segmenter.hpp"

#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using Kind = Segmentation::Kind;

std::uint16_t word(const std::uint8_t* at) { return load_be<std::uint16_t>(at); }
void store_word(std::uint8_t* at, std::uint16_t value) { store_be(at, value); }

/// Of the IPv4 header: all but the fields that each segment has for itself.
wire::InternetChecksum common_ipv4(ConstBytes header) {
  wire::InternetChecksum sum;
  sum.add(header.first(wire::ipv4::kTotalLength));
  sum.add(header.subspan(wire::ipv4::kFragment, wire::ipv4::kChecksum - wire::ipv4::kFragment));
  return sum.add(header.subspan(wire::ipv4::kAddresses));
}

/// The pseudo-header without the length: the packet has it with its own length in the field of its
/// checksum. (Addresses would not do: with a routing header the last one is elsewhere.)
wire::InternetChecksum common_pseudo_header(std::uint16_t partial, std::size_t length) {
  return wire::InternetChecksum().add(partial).add(static_cast<std::uint16_t>(~length));
}

wire::InternetChecksum common_tcp(wire::InternetChecksum sum, ConstBytes header) {
  sum.add(header.first(wire::tcp::kSequence));
  sum.add(header.subspan(wire::tcp::kAcknowledgement,
                         wire::tcp::kOffsetAndFlags - wire::tcp::kAcknowledgement));
  sum.add(header.subspan(wire::tcp::kWindow, wire::tcp::kChecksum - wire::tcp::kWindow));
  return sum.add(header.subspan(wire::tcp::kUrgent));
}

/// Where the header of TCP or UDP can begin: behind that of IP, or behind extensions of IPv6.
bool may_begin_at(ConstBytes packet, Kind kind, std::size_t transport) {
  const auto upper = wire::upper_layer(packet);
  if (!upper || wire::ip_length(packet) != packet.size()) return false;
  const auto protocol = kind == Kind::tcp ? wire::kTcp : wire::kUdp;
  return (transport == upper->begin && upper->protocol == protocol) ||
         (transport > upper->begin && wire::ip_version(packet) == 6);
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
  // The field holds the sum of the pseudo-header, which is to be in the sum.
  store_word(&covered[offset], wire::transport_checksum(wire::internet_checksum(covered)));
  return true;
}

bool is_plain(const Frame& large, std::size_t ip) {
  const bool is_ipv4 = wire::ip_version(large.bytes().subspan(ip)) == 4;
  return large.segmentation().transport ==
         ip + (is_ipv4 ? wire::Ipv4Header::kMinimumSize : wire::Ipv6Header::kSize);
}

Segmenter::Segmenter(const Frame& frame, std::size_t ip, bool device_sums)
    : plan_(frame.segmentation()),
      ip_(ip),
      headers_(frame.bytes().first(plan_.payload), ip, plan_, frame.size() - plan_.payload),
      leaves_sums_(device_sums && is_plain(frame, ip)),
      payload_(frame.bytes().subspan(plan_.payload)) {
  if (leaves_sums_) return;
  const auto headers = frame.bytes().first(plan_.payload);
  const auto transport = headers.subspan(plan_.transport);
  if (headers_.is_ipv4()) common_ip_ = common_ipv4(headers.subspan(ip_, plan_.transport - ip_));
  common_transport_ = common_pseudo_header(word(&transport[wire::checksum_offset(plan_.kind)]),
                                           transport.size() + payload_.size());
  if (plan_.kind == Kind::tcp) {
    common_transport_ = common_tcp(common_transport_, transport);
  } else {
    common_transport_.add(transport.first(wire::udp::kLength));
  }
}

ConstBytes Segmenter::next(std::uint8_t* header) {
  const auto payload = payload_.first(headers_.next(header));
  payload_ = payload_.subspan(payload.size());
  if (!leaves_sums_) {
    if (headers_.is_ipv4()) sum_up_ip(header + ip_);
    sum_up_transport(header + plan_.transport, payload);
  }
  return payload;
}

void Segmenter::sum_up_ip(std::uint8_t* header) const {
  auto sum = common_ip_;
  sum.add(word(header + wire::ipv4::kTotalLength)).add(word(header + wire::ipv4::kIdentification));
  store_word(header + wire::ipv4::kChecksum, sum.value());
}

void Segmenter::sum_up_transport(std::uint8_t* header, ConstBytes payload) const {
  auto sum = common_transport_;
  if (plan_.kind == Kind::tcp) {
    sum.add({header + wire::tcp::kSequence, sizeof(std::uint32_t)});
    sum.add(word(header + wire::tcp::kOffsetAndFlags));
  } else {
    sum.add(word(header + wire::udp::kLength));
  }
  sum.add(static_cast<std::uint16_t>(header_size() - plan_.transport + payload.size()));
  store_word(header + wire::checksum_offset(plan_.kind),
             wire::transport_checksum(sum.add(payload).value()));
}

}  // namespace ipoib::offload
