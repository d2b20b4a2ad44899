// Arbitrary packets from and for the host. Coalesced packets, segmented again, are the packets that
// were coalesced; segments have valid checksums.
#include <algorithm>
#include <array>
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
using offload::Segmenter;

namespace {

constexpr std::size_t kSlot = 4096;
constexpr std::size_t kLargeSlot = 65536 + 64;
constexpr std::size_t kFrames = 256;
constexpr std::uint64_t kMaxCost = 2'000'000;

/// For one large packet at a time; made once.
FramePool& large_frames() {
  static FramePool pool(1, kLargeSlot);
  return pool;
}

/// A set of packets that can be compared with another one: a hash of each, since to keep the
/// packets would take most of the time.
class Packets {
 public:
  /// Ignores the identification of a packet that is atomic (RFC 6864, 4.1), and so its checksum.
  void add(ConstBytes packet) {
    require(count_ < hashes_.size());
    std::uint64_t& hash = hashes_[count_++];
    hash = packet.size();
    if (wire::Ipv4Header::parse(packet) && (packet[wire::ipv4::kFragment] & 0x40) != 0) {
      static_assert(wire::ipv4::kFragment == wire::ipv4::kIdentification + 2);
      add_to(hash, packet.first(wire::ipv4::kIdentification));
      packet = packet.subspan(wire::ipv4::kFragment);
      constexpr std::size_t kBetween = wire::ipv4::kChecksum - wire::ipv4::kFragment;
      add_to(hash, packet.first(kBetween));
      packet = packet.subspan(kBetween + 2);
    }
    add_to(hash, packet);
  }
  void clear() { count_ = 0; }
  /// Ends both sets: they are sorted.
  [[nodiscard]] bool is_same_as(Packets& other) {
    std::sort(hashes_.begin(), hashes_.begin() + count_);
    std::sort(other.hashes_.begin(), other.hashes_.begin() + other.count_);
    return count_ == other.count_ &&
           std::equal(hashes_.begin(), hashes_.begin() + count_, other.hashes_.begin());
  }

 private:
  static void add_to(std::uint64_t& hash, ConstBytes bytes) {
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
      add_to(hash, load_be<std::uint64_t>(bytes.data()));
    }
    for (const std::uint64_t byte : bytes) add_to(hash, byte);
  }
  static void add_to(std::uint64_t& hash, std::uint64_t word) {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
    hash = (hash ^ word) * kGolden;
    hash ^= hash >> 32;
  }

  std::array<std::uint64_t, kFrames> hashes_;
  std::size_t count_ = 0;
};

/// The next segment, until the next call of scratch().
MutableBytes next_of(Segmenter& segmenter) {
  static std::array<std::uint8_t, offload::kMaxHeaders> room;
  const MutableBytes header = MutableBytes(room).last(segmenter.header_size());
  const ConstBytes payload = segmenter.next(header.data());
  return scratch_copy(header, payload);
}

class SegmentingHost : public TunPort {
 public:
  const std::string& name() const override { return name_; }
  bool read(const HostPools&, std::size_t, std::vector<Frame>&, std::size_t) override {
    return false;
  }
  bool write(ConstBytes packet) override {
    got.add(packet);
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
      got.add(next_of(segmenter));
    }
    return true;
  }
  Result<void> set_mtu(std::uint32_t) override { return {}; }
  Result<void> set_carrier(bool) override { return {}; }

  Packets got;

 private:
  std::string name_;
};

/// Gives packets to a coalescer, and remembers them.
class Sender {
 public:
  explicit Sender(Coalescer& coalescer) : coalescer_(coalescer) {}

  void send(ConstBytes packet) {
    static FramePool pool(kFrames, kSlot);
    Frame frame = pool.take();
    frame.window(0, packet.size());
    std::ranges::copy(packet, frame.bytes().begin());
    frame.set_upper_layer(wire::upper_layer(packet));
    sent.add(packet);
    ++count;
    coalescer_.add(std::move(frame));
  }
  /// Segments the bytes as if they were a packet, which gives packets that can be coalesced.
  /// Returns false if they cannot be segmented.
  [[nodiscard]] bool send_segments(ConstBytes packet, Segmentation::Kind kind, std::size_t size) {
    const std::size_t transport = wire::ip_version(packet) == 4 ? 20 : 40;
    const auto plan = offload::plan_segments(packet, kind, transport, size);
    if (!plan) return false;
    Frame frame = large_frames().take();
    frame.window(0, packet.size());
    std::ranges::copy(packet, frame.bytes().begin());
    frame.set_segmentation(*plan);
    const std::size_t before = count;
    for (auto segmenter = make_segmenter(frame, 0); !segmenter.done();) send(next_of(segmenter));
    require(count - before == frame.datagrams());
    return true;
  }

  Packets sent;
  std::size_t count = 0;

 private:
  Coalescer& coalescer_;
};

/// Makes the headers fit the packet and each other, as random ones do not: only segments with valid
/// checksums can be coalesced.
void fit_headers(MutableBytes packet, Segmentation::Kind kind) {
  constexpr std::size_t kTcpHeader = 20;  // without options
  const bool is_ipv6 = wire::ip_version(packet) == 6;
  const std::size_t transport = is_ipv6 ? wire::Ipv6Header::kSize : wire::Ipv4Header::kMinimumSize;
  if (packet.size() <= transport + kTcpHeader) return;
  const std::uint8_t protocol = wire::protocol_of(kind);
  if (is_ipv6) {
    packet[wire::ipv6::kNextHeader] = protocol;
  } else {
    packet[0] = 0x45;
    packet[wire::ipv4::kProtocol] = protocol;
    packet[wire::ipv4::kFragment] &= wire::ipv4::kDontFragment >> 8;
    packet[wire::ipv4::kFragment + 1] = 0;
  }
  if (kind == Segmentation::Kind::tcp) packet[transport + wire::tcp::kOffsetAndFlags] = 0x50;
  wire::emit_large_headers(packet, kind, transport, packet.size());
}

/// The input: packets, each after its length, and how it is segmented.
void send_packets(Sender& sender, ByteReader reader) {
  while (reader.left() > 4 && sender.count + kMaxSegments < kFrames) {
    const std::size_t length = reader.u16() % kSlot;
    const std::uint8_t how = reader.u8();
    const MutableBytes packet = scratch_copy(reader.take(std::min(length, reader.left())));
    (void)offload::complete_checksum(packet, how & 63U, how >> 4U);
    const auto kind = (how & 1) != 0 ? Segmentation::Kind::tcp : Segmentation::Kind::udp;
    if ((how & 2) != 0) fit_headers(packet, kind);
    if (!sender.send_segments(packet, kind, 1U + how / 4U)) sender.send(packet);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const CostLimit limit(kMaxCost);
  // As in the daemon, for many batches: nothing of one may have an effect on the next one.
  static SegmentingHost host;
  static Coalescer coalescer(host);
  host.got.clear();
  Sender sender(coalescer);
  send_packets(sender, ByteReader({data, size}));
  coalescer.flush();
  require(host.got.is_same_as(sender.sent));
  require(coalescer.counters().refused == 0);
  return 0;
}
