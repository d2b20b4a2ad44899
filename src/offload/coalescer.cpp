#include "offload/coalescer.hpp"

#include <utility>

#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using Kind = Segmentation::Kind;

std::size_t bucket_of(const FlowPacket& flow) {
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
  const bool is_candidate =
      host_.accepts(flow->kind) && can_coalesce(*flow, taken.checksums_valid());
  if (Group* const group = find_open(*flow)) {
    const bool appended = is_candidate && append(*group, taken, *flow);
    group->open = appended && !is_last(*flow) && group->count < kMaxSegments &&
                  flow->payload_size() == group->first.payload_size();
    if (appended) return;
  }
  begin(std::move(taken), *flow);
  if (is_candidate && !is_last(*flow)) open_last();
}

void Coalescer::begin(Frame&& packet, const FlowPacket& flow) {
  const auto index = static_cast<std::uint32_t>(packets_.size());
  groups_.push_back({.first = flow,
                     .first_packet = index,
                     .last_packet = index,
                     .count = static_cast<std::uint32_t>(packet.datagrams()),
                     .size = std::as_const(packet).bytes().size()});
  packets_.push_back({std::move(packet)});
}

bool Coalescer::append(Group& group, Frame& packet, const FlowPacket& flow) {
  const std::size_t size = group.first.payload_size();
  if (group.size + flow.payload_size() > wire::kMaxIpPacket ||
      !continues(group.first, flow, group.count, size)) {
    return false;
  }
  const auto index = static_cast<std::uint32_t>(packets_.size());
  packets_[group.last_packet].next = index;
  group.last_packet = index;
  ++group.count;
  group.size += flow.payload_size();
  packet.drop_front(flow.payload);
  packets_.push_back({std::move(packet)});
  return true;
}

void Coalescer::open_last() {
  groups_.back().open = true;
  buckets_[bucket_of(groups_.back().first)] = static_cast<std::uint32_t>(groups_.size() - 1);
}

Coalescer::Group* Coalescer::find_open(const FlowPacket& flow) {
  const std::size_t at = buckets_[bucket_of(flow)];
  if (at < closed_ || at >= groups_.size()) return nullptr;
  Group& group = groups_[at];
  return group.open && is_same_flow(group.first, flow) ? &group : nullptr;
}

void Coalescer::flush() {
  for (const Group& group : groups_) {
    if (!write(group)) counters_.refused += group.count;
  }
  groups_.clear();
  packets_.clear();
  closed_ = 0;
}

bool Coalescer::write(const Group& group) {
  Frame& first = packets_[group.first_packet].frame;
  const auto begin = std::as_const(first).bytes();
  if (group.count == 1 && !first.is_large()) return host_.write(begin);
  counters_.segments += group.count;
  ++counters_.large;
  if (first.is_large()) return host_.write_large({&begin, 1}, first.segmentation());
  wire::emit_large_headers(first.bytes(), group.first.kind, group.first.transport, group.size);
  if (group.first.kind == Kind::tcp) {
    // drop_front() has left the headers of the last packet in front of its payload.
    constexpr std::size_t kFlags = wire::tcp::kOffsetAndFlags + 1;
    const auto* const last = std::as_const(packets_[group.last_packet].frame).bytes().data();
    const auto flags = group.first.transport + kFlags;
    first.bytes()[flags] |= *(last - group.first.payload + flags);
  }
  std::array<ConstBytes, kMaxSegments> pieces;
  std::size_t count = 0;
  for (auto i = group.first_packet; i != kNone; i = packets_[i].next) {
    pieces[count++] = std::as_const(packets_[i].frame).bytes();
  }
  return host_.write_large(
      {pieces.data(), count},
      Segmentation{group.first.kind, group.first.transport, group.first.payload,
                   static_cast<std::uint16_t>(group.first.payload_size())});
}

}  // namespace ipoib::offload
