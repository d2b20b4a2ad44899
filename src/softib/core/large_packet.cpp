#include "softib/core/large_packet.hpp"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "softib/core/packet_run.hpp"
#include "softib/core/prefetch.hpp"
#include "wire/encapsulation.hpp"
#include "wire/transport.hpp"

namespace softib {
namespace {

namespace wire = ipoib::wire;
using wire::UdPacket;

/// Total size of segments with `headers` bytes of headers and up to `size` bytes of payload each.
std::size_t total_size(std::size_t headers, std::size_t payload, std::size_t size) {
  const auto rest = payload % size;
  return payload / size * padded(headers + size) + (rest == 0 ? 0 : padded(headers + rest));
}

/// Plans the segmentation; nullopt if that does not yield the number of segments in `gso`.
std::optional<ipoib::Segmentation> plan_of(ConstBytes front, std::size_t message, GsoInfo gso) {
  auto plan = plan_gso(front, gso.size);
  const bool agrees =
      plan && plan->payload < message && plan->count(message) == gso.packets &&
      plan->payload + std::min(message - plan->payload, std::size_t{gso.size}) <= kMaxMtu;
  if (!agrees) plan.reset();
  return plan;
}

/// Writes a packet with the payload `front` and `rest`.
template <class Packet>
void assemble(Packet headers, ConstBytes front, ConstBytes rest, std::vector<std::uint8_t>& to) {
  to.resize(Packet::kMaxHeaderSize);
  to.resize(headers.emit_headers(front.size() + rest.size(), to));
  to.insert(to.end(), front.begin(), front.end());
  to.insert(to.end(), rest.begin(), rest.end());
  to.resize(to.size() + headers.bth.pad);
}

}  // namespace

std::optional<ipoib::Segmentation> plan_gso(ConstBytes front, std::uint16_t size) {
  if (wire::ip_of(front).empty()) return std::nullopt;
  return ipoib::offload::plan_headers(front, wire::kEncapsulationSize, size);
}

LargePacket::LargePacket(const ArrivedPacket& from)
    : headers_(UdPacket::parse_headers(from.bytes)) {
  assert(from.gso.size != 0);
  if (!headers_) return;
  const auto message = std::exchange(headers_->payload, {});
  // The sender may still write to this memory, so the headers are copied before they are checked.
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

bool LargePacket::select_whole() {
  constexpr auto kBeforeIp = wire::kEncapsulationSize;
  const auto payload = segmenter_->remaining();
  const auto bytes = plan_.payload - kBeforeIp + payload.size();
  if (bytes > wire::kMaxIpPacket) return false;
  current_->front = template_;
  current_->payload = payload;
  emit_grh(std::min(payload.size(), std::size_t{plan_.size}), *current_);
  const ipoib::MutableBytes headers(current_->front.data() + kBeforeIp, plan_.payload - kBeforeIp);
  wire::emit_large_headers(headers, plan_.kind, plan_.transport - kBeforeIp, bytes);
  return true;
}

/// Writes the GRH of a packet with `payload` bytes after front().
void LargePacket::emit_grh(std::size_t payload, Segment& segment) {
  if (!headers_->grh) return;
  headers_->set_size(plan_.payload + payload);
  headers_->grh->emit(segment.grh);
}

void LargePacket::build(Segment& segment) {
  segment.payload = {};
  if (segmenter_->done()) return;
  segment.payload = segmenter_->next(segment.front.data());
  emit_grh(segment.payload.size(), segment);
  const auto left = segmenter_->remaining();  // the next segment is not longer than this one
  prefetch(left.first(std::min(left.size(), segment.payload.size())));
}

bool LargePacket::next() {
  if (!segmenter_) return false;
  const bool is_first = !std::exchange(begun_, true);
  if (is_first) build(*upcoming_);
  if (upcoming_->payload.empty()) return false;
  std::swap(current_, upcoming_);
  build(*upcoming_);
  if (!is_first) headers_->bth.psn = headers_->bth.psn + 1;
  return true;
}

ConstBytes LargePacket::grh() const {
  return headers_->grh ? ConstBytes(current_->grh) : ConstBytes();
}

std::size_t segmented_size(const ArrivedPacket& packet) {
  const auto bytes = packet.bytes.size();
  if (packet.gso.size == 0) return bytes;
  const auto headers = UdPacket::parse_headers(packet.bytes);
  if (!headers) {
    const auto run = PacketRun::parse(packet.bytes, packet.gso);
    return run ? run->segmented_size() : bytes;
  }
  const auto message = headers->payload;
  const auto plan = plan_of(message, message.size(), packet.gso);
  if (!plan) return bytes;
  const auto payload = message.size() - plan->payload;
  return total_size(bytes - payload, payload, packet.gso.size);
}

std::size_t segmented_size(const OutgoingPacket& packet) {
  const auto bytes = packet.size();
  if (packet.gso.size == 0) return bytes;
  if (packet.purpose != Purpose::datagram) {
    const auto headers =
        wire::ConnectedPacket::parse_headers(ConstBytes(packet.header).first(packet.header_size));
    return PacketRun::segmented_size(*headers, packet.payload_size, packet.gso.size);
  }
  const auto headers = packet.header_size + packet.pieces.front().size();
  return total_size(headers, bytes - headers, packet.gso.size);
}

void for_each_packet(const ArrivedPacket& packet, const std::function<void(ConstBytes)>& visit) {
  if (packet.gso.size == 0) return visit(packet.bytes);
  std::vector<std::uint8_t> bytes;
  if (const auto run = PacketRun::parse(packet.bytes, packet.gso)) {
    for (std::uint32_t i = 0; i < run->whole().packets; ++i) {
      const auto part = run->packet(i);
      assemble(part, part.payload, {}, bytes);
      visit(bytes);
    }
    return;
  }
  LargePacket large(packet);
  if (!large) return visit(packet.bytes.first(std::min(packet.bytes.size(), kMaxPacketBytes)));
  while (large.next()) {
    assemble(large.headers(), large.front(), large.payload(), bytes);
    visit(bytes);
  }
}

void for_each_packet(const OutgoingPacket& packet, const std::function<void(ConstBytes)>& visit) {
  std::vector<std::uint8_t> bytes(packet.size());
  write_packet(packet, bytes.data());
  for_each_packet({bytes, packet.checksums_valid, packet.gso}, visit);
}

}  // namespace softib
