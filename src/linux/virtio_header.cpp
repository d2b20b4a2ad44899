#include "linux/virtio_header.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "offload/segmenter.hpp"
#include "wire/ipv4.hpp"
#include "wire/transport.hpp"

namespace ipoib::linux {
namespace {

using Kind = Segmentation::Kind;

Kind kind_of(const VirtioHeader& header) {
  switch (header.gso_type & ~virtio::kEcn) {
    case virtio::kTcpOverIpv4:
    case virtio::kTcpOverIpv6:
      return Kind::tcp;
    case virtio::kUdp:
      return Kind::udp;
    default:
      return Kind::none;
  }
}

/// Whether the packet has the flag CWR, which only the first TCP segment may have (RFC 3168,
/// 6.1.2).
bool has_cwr(ConstBytes packet, const Segmentation& how) {
  if (how.kind != Kind::tcp) return false;
  const auto flags = load_be<std::uint16_t>(&packet[how.transport + wire::tcp::kOffsetAndFlags]);
  return (flags & wire::tcp::kCongestionReduced) != 0;
}

}  // namespace

bool apply_header(const VirtioHeader& header, Frame& frame) {
  const bool is_partial = (header.flags & virtio::kNeedsChecksum) != 0;
  const auto packet = std::as_const(frame).bytes();
  if (header.gso_type != virtio::kNone) {
    const Kind kind = kind_of(header);
    if (!is_partial || header.csum_offset != wire::checksum_offset(kind)) return false;
    const auto plan = offload::plan_segments(packet, kind, header.csum_start, header.gso_size);
    if (!plan) return false;
    if (plan->count(packet.size()) > 1) {
      frame.set_segmentation(*plan);
      return true;
    }
  }
  return !is_partial ||
         offload::complete_checksum(frame.bytes(), header.csum_start, header.csum_offset);
}

bool apply_header_to_ethernet(const VirtioHeader& header, Frame& frame) {
  constexpr auto kSize = wire::EthernetHeader::kSize;
  if (frame.size() < kSize) return false;
  const auto ethernet = wire::EthernetHeader::parse(std::as_const(frame).bytes().data());
  frame.drop_front(kSize);
  // Frames of other types are dropped, so their checksums do not matter.
  if (!is_type(ethernet, wire::EtherType::ipv4) && !is_type(ethernet, wire::EtherType::ipv6)) {
    return true;
  }
  VirtioHeader of_packet = header;
  of_packet.csum_start = static_cast<std::uint16_t>(
      header.csum_start - std::min<std::size_t>(header.csum_start, kSize));
  return apply_header(of_packet, frame);
}

VirtioHeader moved_by(std::size_t count, VirtioHeader header) {
  header.csum_start = static_cast<std::uint16_t>(header.csum_start + count);
  header.hdr_len = static_cast<std::uint16_t>(header.hdr_len + count);
  return header;
}

std::optional<wire::VlanTag> remove_tag(VirtioHeader& header, Frame& frame) {
  using wire::VlanTag;
  const auto tag = VlanTag::parse(std::as_const(frame).bytes());
  if (!tag) return std::nullopt;
  const bool is_partial = (header.flags & virtio::kNeedsChecksum) != 0;
  if (is_partial && header.csum_start < wire::EthernetHeader::kSize + VlanTag::kSize) {
    return std::nullopt;
  }
  const auto less = [](std::uint16_t offset) {
    return static_cast<std::uint16_t>(offset - std::min<std::size_t>(offset, VlanTag::kSize));
  };
  header.csum_start = less(header.csum_start);
  header.hdr_len = less(header.hdr_len);
  auto* const front = frame.bytes().data();
  std::memmove(front + VlanTag::kSize, front, VlanTag::kOffset);
  frame.drop_front(VlanTag::kSize);
  return tag;
}

VirtioHeader header_of(ConstBytes first, const Segmentation& how) {
  const bool is_ipv4 = wire::ip_version(first) == 4;
  VirtioHeader header{};
  header.flags = virtio::kNeedsChecksum;
  header.gso_type = how.kind == Kind::udp ? virtio::kUdp
                    : is_ipv4             ? virtio::kTcpOverIpv4
                                          : virtio::kTcpOverIpv6;
  if (has_cwr(first, how)) header.gso_type |= virtio::kEcn;
  header.hdr_len = how.payload;
  header.gso_size = how.size;
  header.csum_start = how.transport;
  header.csum_offset = static_cast<std::uint16_t>(wire::checksum_offset(how.kind));
  return header;
}

}  // namespace ipoib::linux
