#include "offload/coalescer.hpp"

#include <utility>

#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using Kind = Segmentation::Kind;

std::size_t place_of(const FlowPacket& flow) {
  constexpr std::uint32_t kGolden = 0x9e3779b1;
  return flow.tag * kGolden >> 24;
}

}  // namespace

void Coalescer::add(Frame&& packet) {
  Frame taken = std::move(packet);
  const auto flow = taken.is_large()
                        ? std::nullopt
                        : parse_flow(std::as_const(taken).bytes(), taken.upper_layer());
  if (!flow) {
    closed_ = groups_.size() + 1;
    return begin(std::move(taken), {});
  }
  const bool may_be_one = host_.takes(flow->kind) && can_coalesce(*flow, taken.checksums_valid());
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
                     .count = static_cast<std::uint32_t>(packet.datagrams()),
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
  const auto begin = std::as_const(first).bytes();
  if (group.count == 1 && !first.is_large()) return host_.write(begin);
  counters_.segments += group.count;
  ++counters_.large;
  if (first.is_large()) return host_.write_large({&begin, 1}, first.segmentation());
  wire::emit_large_headers(first.bytes(), group.first.kind, group.first.transport, group.octets);
  if (group.first.kind == Kind::tcp) {
    // The headers of the last one lie before its payload, where drop_front() has left them.
    constexpr std::size_t kFlags = wire::tcp::kOffsetAndFlags + 1;
    const auto* const last = std::as_const(pieces_[group.last_piece].frame).bytes().data();
    const auto flags = group.first.transport + kFlags;
    first.bytes()[flags] |= *(last - group.first.payload + flags);
  }
  std::array<ConstBytes, kMaxSegments> all;
  std::size_t count = 0;
  for (auto i = group.first_piece; i != kNone; i = pieces_[i].next) {
    all[count++] = std::as_const(pieces_[i].frame).bytes();
  }
  return host_.write_large(
      {all.data(), count},
      Segmentation{group.first.kind, group.first.transport, group.first.payload,
                   static_cast<std::uint16_t>(group.first.payload_size())});
}

}  // namespace ipoib::offload
