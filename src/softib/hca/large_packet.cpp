#include "softib/hca/large_packet.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "softib/core/prefetch.hpp"
#include "wire/encapsulation.hpp"
#include "wire/transport.hpp"

namespace softib::hca {
namespace {

namespace wire = ipoib::wire;
using wire::UdPacket;

constexpr std::size_t padded(std::size_t octets) { return (octets + 3) / 4 * 4; }

/// Of packets of which each has `headers` octets, and after each `size` octets of `payload` ends
/// one.
std::size_t octets_of_all(std::size_t headers, std::size_t payload, std::size_t size) {
  const auto rest = payload % size;
  return payload / size * padded(headers + size) + (rest == 0 ? 0 : padded(headers + rest));
}

/// How it is to be cut, if that makes as many packets as it says.
std::optional<ipoib::Segmentation> plan_of(ConstBytes front, std::size_t message, GsoInfo gso) {
  auto plan = plan_gso(front, gso.size);
  const bool agrees =
      plan && plan->payload < message && plan->count(message) == gso.packets &&
      plan->payload + std::min(message - plan->payload, std::size_t{gso.size}) <= kMaxMtu;
  if (!agrees) plan.reset();
  return plan;
}

}  // namespace

std::optional<ipoib::Segmentation> plan_gso(ConstBytes front, std::uint16_t size) {
  if (wire::ip_of(front).empty()) return std::nullopt;
  return ipoib::offload::plan_headers(front, wire::kEncapsulationSize, size);
}

LargePacket::LargePacket(const ArrivedPacket& from)
    : headers_(UdPacket::parse_headers(from.octets)) {
  if (!headers_) return;
  const auto message = std::exchange(headers_->payload, {});
  // Who wrote it may change it, so it is looked at once.
  const auto begin = message.first(std::min(message.size(), template_.size()));
  std::copy(begin.begin(), begin.end(), template_.begin());
  const auto plan = plan_of(ConstBytes(template_).first(begin.size()), message.size(), from.gso);
  if (!plan) return;
  plan_ = *plan;
  const auto front = ConstBytes(template_).first(plan_.payload);
  segmenter_.emplace(front, wire::kEncapsulationSize, plan_, message.subspan(plan_.payload));
  if (from.checksums_valid) {
    const auto ip = front.subspan(wire::kEncapsulationSize);
    segmenter_->compute_checksums(wire::pseudo_header(ip, plan_.kind, 0));
  }
}

bool LargePacket::make_whole() {
  constexpr auto kBeforeIp = wire::kEncapsulationSize;
  const auto payload = segmenter_->remaining();
  const auto octets = plan_.payload - kBeforeIp + payload.size();
  if (octets > wire::kMaxIpPacket) return false;
  here_->front = template_;
  here_->payload = payload;
  emit_grh(std::min(payload.size(), std::size_t{plan_.size}), *here_);
  const ipoib::MutableBytes headers(here_->front.data() + kBeforeIp, plan_.payload - kBeforeIp);
  wire::emit_large_headers(headers, plan_.kind, plan_.transport - kBeforeIp, octets);
  return true;
}

/// That of a packet with so much payload.
void LargePacket::emit_grh(std::size_t payload, Segment& segment) {
  if (!headers_->grh) return;
  headers_->set_size(plan_.payload + payload);
  headers_->grh->emit(segment.grh);
}

void LargePacket::make(Segment& segment) {
  segment.payload = {};
  if (segmenter_->done()) return;
  segment.payload = segmenter_->next(segment.front.data());
  emit_grh(segment.payload.size(), segment);
  const auto left = segmenter_->remaining();  // of which the next has no more than this one
  prefetch(left.first(std::min(left.size(), segment.payload.size())));
}

bool LargePacket::next() {
  if (!segmenter_) return false;
  const bool is_first = !std::exchange(begun_, true);
  if (is_first) make(*ahead_);
  if (ahead_->payload.empty()) return false;
  std::swap(here_, ahead_);
  make(*ahead_);
  if (!is_first) headers_->bth.psn = (headers_->bth.psn + 1) & wire::Bth::kPsnMask;
  return true;
}

ConstBytes LargePacket::grh() const {
  return headers_->grh ? ConstBytes(here_->grh) : ConstBytes();
}

std::size_t octets_of(const ArrivedPacket& packet) {
  const auto octets = packet.octets.size();
  if (packet.gso.size == 0) return octets;
  const auto headers = UdPacket::parse_headers(packet.octets);
  if (!headers) return octets;
  const auto message = headers->payload;
  const auto plan = plan_of(message, message.size(), packet.gso);
  if (!plan) return octets;
  const auto payload = message.size() - plan->payload;
  return octets_of_all(octets - payload, payload, packet.gso.size);
}

std::size_t octets_of(const OutgoingPacket& packet) {
  const auto octets = packet.size();
  if (packet.gso.size == 0) return octets;
  const auto headers = packet.header_size + packet.pieces.front().size();
  return octets_of_all(headers, octets - headers, packet.gso.size);
}

void for_each_packet(const ArrivedPacket& packet, const std::function<void(ConstBytes)>& see) {
  if (packet.gso.size == 0) return see(packet.octets);
  LargePacket large(packet);
  if (!large) return see(packet.octets.first(std::min(packet.octets.size(), kMaxPacketBytes)));
  std::vector<std::uint8_t> octets;
  while (large.next()) {
    auto headers = large.headers();
    const auto size = large.front().size() + large.payload().size();
    octets.resize(UdPacket::kMaxHeaderSize);
    octets.resize(headers.emit_headers(size, octets));
    octets.insert(octets.end(), large.front().begin(), large.front().end());
    octets.insert(octets.end(), large.payload().begin(), large.payload().end());
    octets.resize(octets.size() + headers.bth.pad);
    see(octets);
  }
}

void for_each_packet(const OutgoingPacket& packet, const std::function<void(ConstBytes)>& see) {
  std::vector<std::uint8_t> octets(packet.size());
  write_packet(packet, octets.data());
  for_each_packet({octets, packet.checksums_valid, packet.gso}, see);
}

}  // namespace softib::hca
