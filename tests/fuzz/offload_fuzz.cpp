// Arbitrary packets from and for the host. Coalesced packets, segmented again, are the packets that
// were coalesced; segments have valid checksums.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "cost.hpp"
#include "ipoib/tun_port.hpp"
#include "offload/coalescer.hpp"
#include "offload/segmenter.hpp"
#include "require.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"
#include "wire/transport.hpp"

using namespace ipoib;
using offload::Coalescer;
using offload::make_segmenter;

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kSlot = 4096;
constexpr std::size_t kLargeSlot = 65536 + 64;
constexpr std::size_t kFrames = 256;
constexpr std::uint64_t kMaxCost = 2'000'000;

/// For one large packet at a time; made once.
FramePool& large_frames() {
  static FramePool pool(1, kLargeSlot);
  return pool;
}

/// A packet without the identification if it is atomic (RFC 6864, 4.1).
Bytes comparable(ConstBytes packet) {
  Bytes out(packet.begin(), packet.end());
  const auto header = wire::Ipv4Header::parse(packet);
  if (header && (packet[wire::ipv4::kFragment] & 0x40) != 0) {
    store_be(&out[wire::ipv4::kIdentification], std::uint16_t{0});
    store_be(&out[wire::ipv4::kChecksum], std::uint16_t{0});
  }
  return out;
}

class SegmentingHost : public TunPort {
 public:
  const std::string& name() const override { return name_; }
  bool read(const HostPools&, std::size_t, std::vector<Frame>&, std::size_t) override {
    return false;
  }
  bool write(ConstBytes packet) override {
    ++got[comparable(packet)];
    return true;
  }
  bool accepts(Segmentation::Kind) const override { return true; }
  bool write_large(std::span<const ConstBytes> pieces, const Segmentation& how) override {
    require(pieces.size() > 1 && pieces.size() <= kMaxSegments);
    Frame large = large_frames().take();
    large.window(0, 0);
    std::size_t size = 0;
    for (const ConstBytes piece : pieces) {
      large.window(0, size + piece.size());
      std::ranges::copy(piece, large.bytes().begin() + static_cast<std::ptrdiff_t>(size));
      size += piece.size();
    }
    const auto plan =
        offload::plan_segments(std::as_const(large).bytes(), how.kind, how.transport, how.size);
    require(plan == how);
    large.set_segmentation(how);
    for (auto segmenter = make_segmenter(large, 0); !segmenter.done();) {
      Bytes segment(segmenter.header_size());
      const ConstBytes payload = segmenter.next(segment.data());
      segment.insert(segment.end(), payload.begin(), payload.end());
      ++got[comparable(segment)];
    }
    return true;
  }
  Result<void> set_mtu(std::uint32_t) override { return {}; }
  Result<void> set_carrier(bool) override { return {}; }

  std::map<Bytes, int> got;

 private:
  std::string name_;
};

/// Segments the bytes as if they were a packet, which gives packets that can be coalesced.
std::vector<Bytes> segments_of(ConstBytes packet, Segmentation::Kind kind, std::size_t size) {
  std::vector<Bytes> out;
  const std::size_t transport = wire::ip_version(packet) == 4 ? 20 : 40;
  const auto plan = offload::plan_segments(packet, kind, transport, size);
  if (!plan) return out;
  Frame frame = large_frames().take();
  frame.window(0, packet.size());
  std::ranges::copy(packet, frame.bytes().begin());
  frame.set_segmentation(*plan);
  for (auto segmenter = make_segmenter(frame, 0); !segmenter.done();) {
    Bytes segment(segmenter.header_size());
    const ConstBytes payload = segmenter.next(segment.data());
    segment.insert(segment.end(), payload.begin(), payload.end());
    out.push_back(std::move(segment));
  }
  require(out.size() == frame.datagrams());
  return out;
}

/// The input: packets, each after its length, and how it is segmented.
std::vector<Bytes> packets_of(ByteReader reader) {
  std::vector<Bytes> out;
  while (reader.left() > 4 && out.size() + kMaxSegments < kFrames) {
    const std::size_t length = reader.u16() % kSlot;
    const std::uint8_t how = reader.u8();
    const auto bytes = reader.take(std::min(length, reader.left()));
    Bytes packet(bytes.begin(), bytes.end());
    if (packet.size() > 40 && (how & 2) != 0) {
      // Random headers rarely fit their packet.
      packet[0] = 0x45;
      packet[9] = (how & 1) != 0 ? 6 : 17;
      packet[6] = packet[7] = 0;
      store_be(&packet[2], static_cast<std::uint16_t>(packet.size()));
      packet[32] = 0x50;
    }
    (void)offload::complete_checksum(packet, how & 63U, how >> 4U);
    const auto kind = (how & 1) != 0 ? Segmentation::Kind::tcp : Segmentation::Kind::udp;
    auto segments = segments_of(packet, kind, 1U + how / 4U);
    if (segments.empty()) segments.push_back(std::move(packet));
    std::ranges::move(segments, std::back_inserter(out));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static FramePool pool(kFrames, kSlot);
  const CostLimit limit(kMaxCost);
  SegmentingHost host;
  Coalescer coalescer(host);
  std::map<Bytes, int> sent;
  for (const Bytes& packet : packets_of(ByteReader({data, size}))) {
    Frame frame = pool.take();
    frame.window(0, packet.size());
    std::ranges::copy(packet, frame.bytes().begin());
    frame.set_upper_layer(wire::upper_layer(packet));
    ++sent[comparable(packet)];
    coalescer.add(std::move(frame));
  }
  coalescer.flush();
  require(host.got == sent);
  require(coalescer.counters().refused == 0);
  return 0;
}
