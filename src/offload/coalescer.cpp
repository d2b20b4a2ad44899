#include "offload/coalescer.hpp"

#include <utility>

#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using Kind = Segmentation::Kind;

std::size_t place_of(const FlowPacket& flow) {
  constexpr std::uint32_t kGolden = 0x9e3779b1;
  return flow.tag * kGolden >> 24;
}

void store_word(std::uint8_t* at, std::size_t value) {
  store_be(at, static_cast<std::uint16_t>(value));
}

}  // namespace

void emit_whole(MutableBytes packet, const FlowPacket& first, ConstBytes last, std::size_t whole) {
  if (wire::ip_version(packet) == 4) {
    store_word(&packet[wire::ipv4::kTotalLength], whole);
    store_word(&packet[wire::ipv4::kChecksum], 0);
    store_word(&packet[wire::ipv4::kChecksum],
               wire::internet_checksum(packet.first(first.transport)));
  } else {
    store_word(&packet[wire::ipv6::kPayloadLength], whole - wire::Ipv6Header::kSize);
  }
  const auto transport = packet.subspan(first.transport);
  const std::size_t length = whole - first.transport;
  if (first.kind == Kind::tcp) {
    constexpr std::size_t kFlags = wire::tcp::kOffsetAndFlags + 1;
    transport[kFlags] |= last[first.transport + kFlags];
  } else {
    store_word(&transport[wire::udp::kLength], length);
  }
  store_word(&transport[wire::checksum_offset(first.kind)],
             wire::pseudo_header(packet, first.kind, length).sum());
}

void Coalescer::add(Frame&& packet) {
  Frame taken = std::move(packet);
  const auto flow = parse_flow(std::as_const(taken).bytes());
  if (!flow) {
    closed_ = groups_.size() + 1;
    return begin(std::move(taken), {});
  }
  const bool may_be_one = host_.takes(flow->kind) && may_be_segment(*flow, taken.checksums_right());
  if (Group* const group = find_open(*flow)) {
    const bool appended = may_be_one && append(*group, taken, *flow);
    group->open = appended && !is_last(*flow) && group->count < kMaxSegments &&
                  flow->payload_size() == group->first.payload_size();
    if (appended) return;
  }
  begin(std::move(taken), *flow);
  if (may_be_one && !is_last(*flow)) open_last();
}

void Coalescer::begin(Frame&& packet, const FlowPacket& flow) {
  const auto piece = static_cast<std::uint32_t>(pieces_.size());
  groups_.push_back({.first = flow,
                     .first_piece = piece,
                     .last_piece = piece,
                     .octets = std::as_const(packet).bytes().size()});
  pieces_.push_back({std::move(packet)});
}

bool Coalescer::append(Group& group, Frame& packet, const FlowPacket& flow) {
  const std::size_t size = group.first.payload_size();
  if (group.octets + flow.payload_size() > wire::kMaxIpPacket ||
      !continues(group.first, flow, group.count, size)) {
    return false;
  }
  const auto piece = static_cast<std::uint32_t>(pieces_.size());
  pieces_[group.last_piece].next = piece;
  group.last_piece = piece;
  ++group.count;
  group.octets += flow.payload_size();
  packet.drop_front(flow.payload);
  pieces_.push_back({std::move(packet)});
  return true;
}

void Coalescer::open_last() {
  groups_.back().open = true;
  places_[place_of(groups_.back().first)] = static_cast<std::uint32_t>(groups_.size() - 1);
}

Coalescer::Group* Coalescer::find_open(const FlowPacket& flow) {
  const std::size_t at = places_[place_of(flow)];
  if (at < closed_ || at >= groups_.size()) return nullptr;
  Group& group = groups_[at];
  return group.open && is_same_flow(group.first, flow) ? &group : nullptr;
}

void Coalescer::flush() {
  for (const Group& group : groups_) {
    if (!write(group)) counters_.refused += group.count;
  }
  groups_.clear();
  pieces_.clear();
  closed_ = 0;
}

bool Coalescer::write(const Group& group) {
  Frame& first = pieces_[group.first_piece].frame;
  if (group.count == 1) return host_.write(std::as_const(first).bytes());
  // The headers of the last one lie before its payload, where drop_front() has left them.
  const Frame& last = pieces_[group.last_piece].frame;
  const ConstBytes last_headers(last.bytes().data() - group.first.payload, group.first.payload);
  emit_whole(first.bytes(), group.first, last_headers, group.octets);
  std::array<ConstBytes, kMaxSegments> all;
  std::size_t count = 0;
  for (auto i = group.first_piece; i != kNone; i = pieces_[i].next) {
    all[count++] = std::as_const(pieces_[i].frame).bytes();
  }
  counters_.segments += group.count;
  ++counters_.large;
  return host_.write_large(
      {all.data(), count},
      Segmentation{group.first.kind, group.first.transport, group.first.payload,
                   static_cast<std::uint16_t>(group.first.payload_size())});
}

}  // namespace ipoib::offload
