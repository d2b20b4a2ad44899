#include "verbs/checksum_probe.hpp"

#include <algorithm>
#include <string_view>

#include "offload/flow.hpp"
#include "wire/encapsulation.hpp"
#include "wire/transport.hpp"

namespace ipoib::verbs {
namespace {

constexpr std::string_view kMark = "ipoibd checksum?";  ///< the payload of a segment
constexpr std::uint16_t kDiscard = 9;                   ///< UDP port (RFC 863)
constexpr std::uint8_t kHops = 1;

/// Writes the headers with lengths of 0, which each segment sets.
void write_ipv4(ByteWriter& to) {
  constexpr std::uint32_t kLoopback = 0x7f000001;
  to.u32(0x45000000);
  to.u32(0);
  to.u8(kHops);
  to.u8(wire::kUdp);
  to.u16(0);
  to.u32(kLoopback);
  to.u32(kLoopback);
}

void write_ipv6(ByteWriter& to) {
  constexpr std::uint64_t kLoopback = 1;
  to.u32(0x60000000);
  to.u16(0);
  to.u8(wire::kUdp);
  to.u8(kHops);
  for (int address = 0; address < 2; ++address) {
    to.u64(0);
    to.u64(kLoopback);
  }
}

ConstBytes mark() { return {reinterpret_cast<const std::uint8_t*>(kMark.data()), kMark.size()}; }

}  // namespace

void write_probe(Frame& frame, std::uint8_t version) {
  const bool is_ipv4 = version == 4;
  const auto transport = wire::kEncapsulationSize +
                         (is_ipv4 ? wire::Ipv4Header::kMinimumSize : wire::Ipv6Header::kSize);
  const auto payload = transport + wire::kUdpHeader;
  frame.window(0, payload + kProbeSegments * kMark.size());
  ByteWriter to(frame.bytes());
  to.u16(static_cast<std::uint16_t>(is_ipv4 ? wire::EtherType::ipv4 : wire::EtherType::ipv6));
  to.u16(0);
  is_ipv4 ? write_ipv4(to) : write_ipv6(to);
  to.u16(kDiscard);
  to.u16(kDiscard);
  to.u32(0);
  for (std::size_t i = 0; i < kProbeSegments; ++i) to.bytes(mark());
  frame.set_segmentation({Segmentation::Kind::udp, static_cast<std::uint16_t>(transport),
                          static_cast<std::uint16_t>(payload),
                          static_cast<std::uint16_t>(kMark.size())});
}

bool is_probe(ConstBytes datagram) {
  return datagram.size() > kMark.size() && std::ranges::equal(datagram.last(kMark.size()), mark());
}

bool has_valid_checksums(ConstBytes probe) {
  const auto ip = probe.subspan(wire::kEncapsulationSize);
  const auto flow = offload::parse_flow(ip, wire::upper_layer(ip));
  return flow && offload::can_coalesce(*flow);
}

void ChecksumProbe::begin() {
  ++attempts_;
  missing_ = kProbeVersions.size() * kProbeSegments;
}

bool ChecksumProbe::take(ConstBytes datagram) {
  if (missing_ == 0 || !is_probe(datagram)) return false;
  --missing_;
  if (!has_valid_checksums(datagram)) state_ = State::failed;
  if (missing_ == 0 && state_ == State::open) state_ = State::passed;
  return true;
}

}  // namespace ipoib::verbs
