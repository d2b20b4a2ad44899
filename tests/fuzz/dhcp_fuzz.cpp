// DHCP messages with arbitrary fields and options, in packets with valid lengths and checksums:
// an emitted message parses as the intended one, and the rest of the packet is unchanged.
#include <algorithm>

#include "cost.hpp"
#include "link/dhcp_rewriter.hpp"
#include "require.hpp"
#include "wire/checksum.hpp"
#include "wire/transport.hpp"

using namespace ipoib;
using wire::DhcpMessage;

namespace {

constexpr std::size_t kHeaders = 28;
constexpr std::size_t kMinMessage = 240;
constexpr std::size_t kMaxMessage = 512;
constexpr std::size_t kSlot = 1024;
constexpr std::uint64_t kMaxCost = 200'000;
constexpr Ipv4Address kAnybody{0xffffffff};

/// A packet with a message. It ends where its room ends, for the address sanitizer.
class Packet {
 public:
  /// `message` has at most kMaxMessage bytes, and is that of a client or a server.
  [[nodiscard]] ConstBytes make(ConstBytes message, bool is_reply) {
    const auto packet =
        MutableBytes(room_).last(kHeaders + std::max<std::size_t>(message.size(), kMinMessage));
    ByteWriter out(packet);
    out.u16(0x4500);
    out.u16(static_cast<std::uint16_t>(packet.size()));
    out.u32(0);
    out.u16(0x4011);
    out.zeros(6);
    out.bytes(kAnybody.bytes());
    out.u16(is_reply ? 67 : 68);
    out.u16(is_reply ? 68 : 67);
    out.u16(static_cast<std::uint16_t>(packet.size() - 20));
    out.u16(0);
    out.bytes(message);
    out.zeros(packet.size() - out.written());
    packet[kHeaders] = is_reply ? 2 : 1;
    store_be(&packet[kHeaders + 236], 0x63825363U);
    store_be(&packet[10], wire::internet_checksum(ConstBytes(packet).first(20)));
    const bool has_checksum = (packet[kHeaders + 3] & 1) != 0;
    if (has_checksum) {
      constexpr auto kUdp = Segmentation::Kind::udp;
      const ConstBytes datagram = packet.subspan(20);
      auto sum = wire::pseudo_header(packet, kUdp, datagram.size());
      store_be(&packet[26], wire::checksum_as_sent(kUdp, sum.add(datagram).value()));
    }
    return packet;
  }

 private:
  std::array<std::uint8_t, kHeaders + kMaxMessage> room_;
};

void fuzz_codec(ConstBytes packet) {
  constexpr std::size_t kMaxOption = 2 + 255;
  auto message = DhcpMessage::parse(packet);
  if (!message) return;
  for (const std::size_t size : {std::size_t{0}, std::size_t{17}, std::size_t{255}}) {
    message->client.identifier.assign(size, 1);
    message->broadcast = !message->broadcast;
    const MutableBytes out = scratch(packet.size() + kMaxOption + 1);
    const std::size_t emitted = message->emit(packet, out);
    if (emitted == 0) continue;
    require(emitted >= packet.size());
    require(DhcpMessage::parse(out.first(emitted)) == message);
  }
}

/// Rewrites a packet from the host, and one to the host.
void fuzz_rewriter(ConstBytes request, ConstBytes reply) {
  static const link::Config config{};
  static const link::HostAddresses host{};
  static const Gid port(Gid::kLinkLocalPrefix, Guid(1));
  static link::Output out;
  link::DhcpRewriter rewriter(config, host, port, out);
  static FramePool pool(1, kSlot);
  for (const ConstBytes packet : {request, reply}) {
    if (packet.size() > kSlot - 4) return;
    Frame frame = pool.take();
    frame.window(4, packet.size());
    std::ranges::copy(packet, frame.bytes().begin());
    rewriter.from_host(frame, kSlot - 4, TimePoint{});
    frame.set_upper_layer(wire::upper_layer(frame.bytes()));
    rewriter.from_fabric(frame, TimePoint{});
    require(frame.headroom() == 4);
    require(frame.headroom() + frame.size() <= kSlot);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::array<Packet, 2> made;
  const ConstBytes bytes(data, std::min(size, 2 * kMaxMessage));
  const CostLimit limit(kMaxCost);
  const ConstBytes request = made[0].make(bytes.first(bytes.size() / 2), false);
  const ConstBytes reply = made[1].make(bytes.subspan(bytes.size() / 2), true);
  fuzz_codec(bytes);
  fuzz_codec(request);
  fuzz_codec(reply);
  fuzz_rewriter(request, reply);
  fuzz_rewriter(bytes, request);
  return 0;
}
