#include "offload/segmenter.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using Kind = Segmentation::Kind;
using wire::InternetChecksum;
namespace ipv4 = wire::ipv4;
namespace tcp = wire::tcp;
namespace udp = wire::udp;

std::uint16_t word_at(const std::uint8_t* at) { return load_be<std::uint16_t>(at); }
void store_word(std::uint8_t* at, std::size_t value) {
  store_be(at, static_cast<std::uint16_t>(value));
}

/// Whether a TCP or UDP header may begin at `transport`: after the IP header, or after IPv6
/// extension headers.
bool may_begin_at(ConstBytes packet, Kind kind, std::size_t transport) {
  const auto upper = wire::upper_layer(packet);
  if (upper.begin == 0 || wire::ip_length(packet) != packet.size()) return false;
  return (transport == upper.begin && wire::kind_of(upper.protocol) == kind) ||
         (transport > upper.begin && wire::ip_version(packet) == 6);
}

/// The sum of the IPv4 header without the fields that differ between segments.
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

std::optional<Segmentation> plan_headers(ConstBytes packet, std::size_t ip, std::uint16_t size) {
  if (packet.size() <= ip) return std::nullopt;
  const auto upper = wire::upper_layer(packet.subspan(ip));
  const auto kind = wire::kind_of(upper.protocol);
  if (kind == Kind::none) return std::nullopt;
  const auto transport = ip + upper.begin;
  if (transport > packet.size()) return std::nullopt;
  const auto own = wire::transport_header_size(packet.subspan(transport), kind);
  if (own == 0) return std::nullopt;
  return Segmentation{kind, static_cast<std::uint16_t>(transport),
                      static_cast<std::uint16_t>(transport + own), size};
}

bool complete_checksum(MutableBytes packet, std::size_t start, std::size_t offset) {
  constexpr std::size_t kField = 2;
  if (start > packet.size() || offset + kField > packet.size() - start) return false;
  const auto covered = packet.subspan(start);
  const auto kind = offset == wire::udp::kChecksum ? Kind::udp : Kind::none;
  // The field holds the sum of the pseudo-header, which is part of the checksum.
  store_word(&covered[offset], wire::checksum_as_sent(kind, wire::internet_checksum(covered)));
  return true;
}

bool has_plain_headers(const Frame& large, std::size_t ip) {
  const bool is_ipv4 = wire::ip_version(large.bytes().subspan(ip)) == 4;
  return large.segmentation().transport ==
         ip + (is_ipv4 ? wire::Ipv4Header::kMinimumSize : wire::Ipv6Header::kSize);
}

Segmenter::Segmenter(ConstBytes headers, std::size_t ip, const Segmentation& plan,
                     ConstBytes payload)
    : headers_(headers),
      payload_(payload),
      plan_(plan),
      ip_(static_cast<std::uint16_t>(ip)),
      is_ipv4_(wire::ip_version(headers.subspan(ip)) == 4) {}

void Segmenter::compute_checksums(InternetChecksum pseudo_header) {
  computes_checksums_ = true;
  const auto transport = headers_.subspan(plan_.transport);
  if (is_ipv4_) common_ip_ = common_ipv4(headers_.subspan(ip_, plan_.transport - ip_));
  common_transport_ = plan_.kind == Kind::tcp ? common_tcp(pseudo_header, transport)
                                              : pseudo_header.add(transport.first(udp::kLength));
}

ConstBytes Segmenter::next(std::uint8_t* to) {
  assert(!done());
  const auto payload =
      payload_.subspan(begin_, std::min<std::size_t>(plan_.size, remaining().size()));
  std::memcpy(to, headers_.data(), headers_.size());
  emit_ip(to + ip_, payload.size());
  if (plan_.kind == Kind::tcp) {
    emit_tcp(to + plan_.transport, payload.size());
  } else {
    store_word(to + plan_.transport + udp::kLength, wire::kUdpHeader + payload.size());
  }
  if (computes_checksums_) {
    if (is_ipv4_) emit_ip_checksum(to + ip_);
    emit_transport_checksum(to + plan_.transport, payload);
  }
  begin_ += payload.size();
  ++number_;
  return payload;
}

void Segmenter::emit_ip(std::uint8_t* header, std::size_t payload) const {
  const auto packet_size = headers_.size() - ip_ + payload;
  if (!is_ipv4_)
    return store_word(header + wire::ipv6::kPayloadLength, packet_size - wire::Ipv6Header::kSize);
  auto* const id = header + ipv4::kIdentification;
  store_word(header + ipv4::kTotalLength, packet_size);
  store_word(id, std::size_t{word_at(id)} + number_);
}

void Segmenter::emit_tcp(std::uint8_t* header, std::size_t payload) const {
  auto* const sequence = header + tcp::kSequence;
  store_be(sequence, load_be<std::uint32_t>(sequence) + static_cast<std::uint32_t>(begin_));
  std::uint16_t cleared = begin_ != 0 ? tcp::kCongestionReduced : 0;
  if (begin_ + payload != payload_.size()) cleared |= tcp::kFin | tcp::kPush;
  auto* const flags = header + tcp::kOffsetAndFlags;
  store_word(flags, word_at(flags) & ~unsigned{cleared});
}

void Segmenter::emit_ip_checksum(std::uint8_t* header) const {
  auto sum = common_ip_;
  sum.add(word_at(header + ipv4::kTotalLength)).add(word_at(header + ipv4::kIdentification));
  store_word(header + ipv4::kChecksum, sum.value());
}

void Segmenter::emit_transport_checksum(std::uint8_t* header, ConstBytes payload) const {
  auto sum = common_transport_;
  if (plan_.kind == Kind::tcp) {
    sum.add(word_at(header + tcp::kSequence)).add(word_at(header + tcp::kSequence + 2));
    sum.add(word_at(header + tcp::kOffsetAndFlags));
  } else {
    sum.add(word_at(header + udp::kLength));
  }
  sum.add(static_cast<std::uint16_t>(headers_.size() - plan_.transport + payload.size()));
  store_word(header + wire::checksum_offset(plan_.kind),
             wire::checksum_as_sent(plan_.kind, sum.add(payload).value()));
}

Segmenter make_segmenter(const Frame& large, std::size_t ip, bool checksum_offload) {
  const auto& plan = large.segmentation();
  const auto headers = large.bytes().first(plan.payload);
  Segmenter segmenter(headers, ip, plan, large.bytes().subspan(plan.payload));
  if (checksum_offload && has_plain_headers(large, ip)) return segmenter;
  // The packet's checksum field holds the sum of the pseudo-header, including the packet's length.
  // (Summing the addresses would be wrong: a routing header contains the final destination.)
  const auto partial = word_at(&headers[plan.transport + wire::checksum_offset(plan.kind)]);
  const auto length = large.size() - plan.transport;
  segmenter.compute_checksums(
      InternetChecksum().add(partial).add(static_cast<std::uint16_t>(~length)));
  return segmenter;
}

}  // namespace ipoib::offload
