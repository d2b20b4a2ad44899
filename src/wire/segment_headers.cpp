#include "wire/segment_headers.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {
namespace {

using Kind = Segmentation::Kind;

std::uint16_t word_at(const std::uint8_t* at) { return load_be<std::uint16_t>(at); }
void store_word(std::uint8_t* at, std::size_t value) {
  store_be(at, static_cast<std::uint16_t>(value));
}

Kind kind_of(std::uint8_t protocol) {
  if (protocol == kTcp) return Kind::tcp;
  return protocol == kUdp ? Kind::udp : Kind::none;
}

}  // namespace

std::size_t transport_header_size(ConstBytes transport, Kind kind) {
  if (kind == Kind::udp) return transport.size() >= kUdpHeader ? kUdpHeader : 0;
  if (transport.size() < tcp::kMinimumSize) return 0;
  const std::size_t size = std::size_t{transport[tcp::kOffsetAndFlags]} / 16 * 4;
  return size >= tcp::kMinimumSize && size <= transport.size() ? size : 0;
}

std::optional<Segmentation> plan_headers(ConstBytes headers, std::size_t ip, std::uint16_t size) {
  if (headers.size() <= ip) return std::nullopt;
  const auto upper = upper_layer(headers.subspan(ip));
  if (!upper) return std::nullopt;
  const Kind kind = kind_of(upper->protocol);
  const auto transport = headers.subspan(ip + upper->begin);
  if (kind == Kind::none || transport.empty() ||
      transport_header_size(transport, kind) != transport.size()) {
    return std::nullopt;
  }
  return Segmentation{kind, static_cast<std::uint16_t>(ip + upper->begin),
                      static_cast<std::uint16_t>(headers.size()), size};
}

SegmentHeaders::SegmentHeaders(ConstBytes headers, std::size_t ip, const Segmentation& plan,
                               std::size_t payload)
    : headers_(headers),
      plan_(plan),
      ip_(static_cast<std::uint16_t>(ip)),
      is_ipv4_(ip_version(headers.subspan(ip)) == 4),
      payload_(static_cast<std::uint32_t>(payload)) {}

std::size_t SegmentHeaders::next(std::uint8_t* to) {
  assert(!done());
  const auto payload = std::min<std::uint32_t>(plan_.size, payload_ - begin_);
  std::memcpy(to, headers_.data(), headers_.size());
  emit_ip(to + ip_, payload);
  if (plan_.kind == Kind::tcp) {
    emit_tcp(to + plan_.transport, payload);
  } else {
    store_word(to + plan_.transport + udp::kLength, kUdpHeader + payload);
  }
  begin_ += payload;
  ++number_;
  return payload;
}

void SegmentHeaders::emit_ip(std::uint8_t* header, std::size_t payload) const {
  const auto whole = headers_.size() - ip_ + payload;
  if (!is_ipv4_) return store_word(header + ipv6::kPayloadLength, whole - Ipv6Header::kSize);
  auto* const id = header + ipv4::kIdentification;
  store_word(header + ipv4::kTotalLength, whole);
  store_word(id, std::size_t{word_at(id)} + number_);
}

void SegmentHeaders::emit_tcp(std::uint8_t* header, std::size_t payload) const {
  auto* const sequence = header + tcp::kSequence;
  store_be(sequence, load_be<std::uint32_t>(sequence) + begin_);
  std::uint16_t not_here = begin_ != 0 ? tcp::kCongestionReduced : 0;
  if (begin_ + payload != payload_) not_here |= tcp::kFin | tcp::kPush;
  auto* const flags = header + tcp::kOffsetAndFlags;
  store_word(flags, word_at(flags) & ~unsigned{not_here});
}

}  // namespace ipoib::wire
