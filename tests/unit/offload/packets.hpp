// TCP and UDP packets to be segmented, and checks of the segments.
#pragma once

#include <numeric>
#include <vector>

#include "offload/segmenter.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::offload::test {

using Bytes = std::vector<std::uint8_t>;
using Kind = Segmentation::Kind;

inline constexpr std::size_t kSegment = 1000;  ///< bytes of payload

struct PacketSpec {
  Kind kind = Kind::tcp;
  int version = 4;
  std::size_t payload = kSegment;
  std::uint16_t flags = wire::tcp::kAck;
  std::uint32_t sequence = 0xfffff000;  ///< wraps soon
  std::uint16_t id = 0xfffe;            ///< likewise
  std::uint16_t fragment = wire::ipv4::kDontFragment;
  std::uint16_t source_port = 40000;
  std::size_t options = 12;  ///< bytes of TCP options
  std::uint8_t seed = 0;     ///< of the payload
};

[[nodiscard]] inline std::size_t transport_of(const PacketSpec& spec) {
  return spec.version == 4 ? wire::Ipv4Header::kMinimumSize : wire::Ipv6Header::kSize;
}
[[nodiscard]] inline std::size_t payload_of(const PacketSpec& spec) {
  const std::size_t tcp_size = wire::tcp::kMinimumSize + spec.options;
  return transport_of(spec) + (spec.kind == Kind::tcp ? tcp_size : wire::kUdpHeader);
}

/// The sum of the pseudo-header.
[[nodiscard]] inline wire::InternetChecksum pseudo_header(ConstBytes packet, Kind kind) {
  const std::uint8_t protocol = wire::protocol_of(kind);
  wire::InternetChecksum sum;
  if (const auto ip = wire::Ipv4Header::parse(packet)) {
    sum.add_pseudo_header(ip->source, ip->destination, protocol,
                          static_cast<std::uint16_t>(ip->total_length - ip->header_size));
  } else if (const auto ip6 = wire::Ipv6Header::parse(packet)) {
    sum.add_pseudo_header(ip6->source, ip6->destination, protocol, ip6->payload_length);
  }
  return sum;
}

/// A packet with a partial checksum.
[[nodiscard]] inline Bytes partial_packet(const PacketSpec& spec) {
  const std::size_t transport = transport_of(spec);
  const std::size_t size = payload_of(spec) + spec.payload;
  Bytes packet(size);
  ByteWriter out(packet);
  const std::uint8_t protocol = wire::protocol_of(spec.kind);
  if (spec.version == 4) {
    out.u16(0x4502);
    out.u16(static_cast<std::uint16_t>(size));
    out.u16(spec.id);
    out.u16(spec.fragment);
    out.u8(64);
    out.u8(protocol);
    out.zeros(2);
    out.u32(0x0a2c0001);
    out.u32(0x0a2c0002);
    store_be(&packet[wire::ipv4::kChecksum], wire::internet_checksum(ConstBytes(packet).first(20)));
  } else {
    out.u32(0x60012345);
    out.u16(static_cast<std::uint16_t>(size - wire::Ipv6Header::kSize));
    out.u8(protocol);
    out.u8(64);
    for (int i = 0; i < 32; ++i) out.u8(static_cast<std::uint8_t>(0x20 + i));
  }
  out.u16(spec.source_port);
  out.u16(5201);
  if (spec.kind == Kind::tcp) {
    out.u32(spec.sequence);
    out.u32(0x01020304);
    out.u16(static_cast<std::uint16_t>((wire::tcp::kMinimumSize + spec.options) / 4 << 12 |
                                       spec.flags));
    out.u16(0x1234);
    out.zeros(4);
    for (std::size_t i = 0; i < spec.options; ++i) out.u8(static_cast<std::uint8_t>(i + 1));
  } else {
    out.u16(static_cast<std::uint16_t>(size - transport));
    out.zeros(2);
  }
  std::iota(packet.begin() + static_cast<std::ptrdiff_t>(payload_of(spec)), packet.end(),
            spec.seed);
  store_be(&packet[transport + wire::checksum_offset(spec.kind)],
           pseudo_header(packet, spec.kind).sum());
  return packet;
}

[[nodiscard]] inline Bytes complete_packet(const PacketSpec& spec) {
  Bytes packet = partial_packet(spec);
  (void)complete_checksum(packet, transport_of(spec), wire::checksum_offset(spec.kind));
  return packet;
}

/// Whether all checksums are valid.
[[nodiscard]] inline bool has_valid_checksums(ConstBytes packet, const PacketSpec& like) {
  const std::size_t transport = transport_of(like);
  if (like.version == 4 && wire::internet_checksum(packet.first(transport)) != 0) return false;
  return pseudo_header(packet, like.kind).add(packet.subspan(transport)).value() == 0;
}

/// A packet in a frame of `pool`, to be segmented every `size` bytes.
[[nodiscard]] inline Frame large_frame(FramePool& pool, const PacketSpec& spec, std::size_t size) {
  const Bytes packet = partial_packet(spec);
  Frame frame = pool.take();
  frame.window(4, packet.size());
  std::copy(packet.begin(), packet.end(), frame.bytes().begin());
  const auto plan = plan_segments(packet, spec.kind, transport_of(spec), size);
  if (plan) frame.set_segmentation(*plan);
  return frame;
}

[[nodiscard]] inline std::vector<Bytes> segments_of(const Frame& frame) {
  std::vector<Bytes> out;
  auto segmenter = make_segmenter(frame, 0);
  while (!segmenter.done()) {
    Bytes segment(segmenter.header_size());
    const ConstBytes payload = segmenter.next(segment.data());
    segment.insert(segment.end(), payload.begin(), payload.end());
    out.push_back(std::move(segment));
  }
  return out;
}

}  // namespace ipoib::offload::test
