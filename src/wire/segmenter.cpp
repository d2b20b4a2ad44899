#include "wire/segmenter.hpp"

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

/// Of the IPv4 header: all but the fields that each segment has for itself.
InternetChecksum common_ipv4(ConstBytes header) {
  InternetChecksum sum;
  sum.add(header.first(ipv4::kTotalLength));
  sum.add(header.subspan(ipv4::kFragment, ipv4::kChecksum - ipv4::kFragment));
  return sum.add(header.subspan(ipv4::kAddresses));
}

InternetChecksum common_tcp(InternetChecksum sum, ConstBytes header) {
  sum.add(header.first(tcp::kSequence));
  sum.add(header.subspan(tcp::kAcknowledgement, tcp::kOffsetAndFlags - tcp::kAcknowledgement));
  sum.add(header.subspan(tcp::kWindow, tcp::kChecksum - tcp::kWindow));
  return sum.add(header.subspan(tcp::kUrgent));
}

}  // namespace

std::size_t transport_header_size(ConstBytes transport, Kind kind) {
  if (kind == Kind::udp) return transport.size() >= kUdpHeader ? kUdpHeader : 0;
  if (transport.size() < tcp::kMinimumSize) return 0;
  const std::size_t size = std::size_t{transport[tcp::kOffsetAndFlags]} / 16 * 4;
  return size >= tcp::kMinimumSize && size <= transport.size() ? size : 0;
}

std::optional<Segmentation> plan_headers(ConstBytes packet, std::size_t ip, std::uint16_t size) {
  if (packet.size() <= ip) return std::nullopt;
  const auto upper = upper_layer(packet.subspan(ip));
  const auto kind = kind_of(upper.protocol);
  if (kind == Kind::none) return std::nullopt;
  const auto transport = ip + upper.begin;
  if (transport > packet.size()) return std::nullopt;
  const auto own = transport_header_size(packet.subspan(transport), kind);
  if (own == 0) return std::nullopt;
  return Segmentation{kind, static_cast<std::uint16_t>(transport),
                      static_cast<std::uint16_t>(transport + own), size};
}

Segmenter::Segmenter(ConstBytes headers, std::size_t ip, const Segmentation& plan,
                     ConstBytes payload)
    : headers_(headers),
      payload_(payload),
      plan_(plan),
      ip_(static_cast<std::uint16_t>(ip)),
      is_ipv4_(ip_version(headers.subspan(ip)) == 4) {}

void Segmenter::sum_up(InternetChecksum pseudo_header) {
  sums_up_ = true;
  const auto transport = headers_.subspan(plan_.transport);
  if (is_ipv4_) common_ip_ = common_ipv4(headers_.subspan(ip_, plan_.transport - ip_));
  common_transport_ = plan_.kind == Kind::tcp ? common_tcp(pseudo_header, transport)
                                              : pseudo_header.add(transport.first(udp::kLength));
}

ConstBytes Segmenter::next(std::uint8_t* to) {
  assert(!done());
  const auto payload = payload_.subspan(begin_, std::min<std::size_t>(plan_.size, left().size()));
  std::memcpy(to, headers_.data(), headers_.size());
  emit_ip(to + ip_, payload.size());
  if (plan_.kind == Kind::tcp) {
    emit_tcp(to + plan_.transport, payload.size());
  } else {
    store_word(to + plan_.transport + udp::kLength, kUdpHeader + payload.size());
  }
  if (sums_up_) {
    if (is_ipv4_) sum_up_ip(to + ip_);
    sum_up_transport(to + plan_.transport, payload);
  }
  begin_ += payload.size();
  ++number_;
  return payload;
}

void Segmenter::emit_ip(std::uint8_t* header, std::size_t payload) const {
  const auto whole = headers_.size() - ip_ + payload;
  if (!is_ipv4_) return store_word(header + ipv6::kPayloadLength, whole - Ipv6Header::kSize);
  auto* const id = header + ipv4::kIdentification;
  store_word(header + ipv4::kTotalLength, whole);
  store_word(id, std::size_t{word_at(id)} + number_);
}

void Segmenter::emit_tcp(std::uint8_t* header, std::size_t payload) const {
  auto* const sequence = header + tcp::kSequence;
  store_be(sequence, load_be<std::uint32_t>(sequence) + static_cast<std::uint32_t>(begin_));
  std::uint16_t not_here = begin_ != 0 ? tcp::kCongestionReduced : 0;
  if (begin_ + payload != payload_.size()) not_here |= tcp::kFin | tcp::kPush;
  auto* const flags = header + tcp::kOffsetAndFlags;
  store_word(flags, word_at(flags) & ~unsigned{not_here});
}

void Segmenter::sum_up_ip(std::uint8_t* header) const {
  auto sum = common_ip_;
  sum.add(word_at(header + ipv4::kTotalLength)).add(word_at(header + ipv4::kIdentification));
  store_word(header + ipv4::kChecksum, sum.value());
}

void Segmenter::sum_up_transport(std::uint8_t* header, ConstBytes payload) const {
  auto sum = common_transport_;
  if (plan_.kind == Kind::tcp) {
    sum.add(word_at(header + tcp::kSequence)).add(word_at(header + tcp::kSequence + 2));
    sum.add(word_at(header + tcp::kOffsetAndFlags));
  } else {
    sum.add(word_at(header + udp::kLength));
  }
  sum.add(static_cast<std::uint16_t>(headers_.size() - plan_.transport + payload.size()));
  store_word(header + checksum_offset(plan_.kind),
             checksum_as_sent(plan_.kind, sum.add(payload).value()));
}

}  // namespace ipoib::wire
