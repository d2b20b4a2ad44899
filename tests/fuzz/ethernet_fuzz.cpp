// Frames of a TAP, with any header and content, and packets of the link for the host: each frame
// stays within its slot, and has the Ethernet header that its packet needs.
//
// An input is a sequence of: direction and type (1 byte), size (1 byte), packet. The byte also says
// whether an IPv6 packet becomes a Neighbour Discovery message.
#include <algorithm>

#include "cost.hpp"
#include "discovery.hpp"
#include "ethernet/view.hpp"
#include "require.hpp"

using namespace ipoib;
using ethernet::View;
using wire::EthernetHeader;

namespace {

constexpr std::uint64_t kMaxCost = 2'000'000;
constexpr std::size_t kSlot = 512;
constexpr MacAddress kHost{0x0200'0000'0001};
constexpr Ipv4Address kPeer{0x0a2c0002};
constexpr std::array<std::uint16_t, 4> kTypes{0x0800, 0x86dd, 0x0806, 0x88cc};

HwAddress hardware(std::uint32_t number) {
  return {.flags = 0, .qpn = Qpn(number), .gid = Gid(Gid::kLinkLocalPrefix, Guid(number))};
}

Frame frame_of(FramePool& pool, const EthernetHeader& header, ConstBytes packet) {
  Frame frame = pool.take();
  frame.window(View::kHeadroom, packet.size());
  std::ranges::copy(packet, frame.bytes().begin());
  header.emit(frame.bytes().data() - EthernetHeader::kSize);
  return frame;
}

void check_written(const Frame& frame) {
  require(frame.headroom() >= EthernetHeader::kSize);
  require(frame.headroom() + frame.size() <= kSlot);
  const auto header = EthernetHeader::parse(frame.bytes().data() - EthernetHeader::kSize);
  require(header.source.bytes()[0] == 0x06);
  require(std::ranges::find(kTypes, header.type) != kTypes.end());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const CostLimit limit(kMaxCost);
  static FramePool pool(600, kSlot);  // an answer for each frame
  View view({.neighbours = 16, .stations = 4}, HashKey{1, 2}, pool);
  TimePoint now{};
  HostView host;
  host.mac = kHost;
  host.addresses = {{Ipv4Address(0x0a2c0001), 24}};
  view.on_host_changed(host, now);
  view.on_neighbour(kPeer, hardware(2), false, now);
  ByteReader reader(ConstBytes(data, size));
  while (reader.left() >= 2) {
    const std::uint8_t kind = reader.u8();
    const ConstBytes packet = reader.take(std::min<std::size_t>(reader.u8(), reader.left()));
    const MacAddress to = (kind & 0x10) != 0 ? view.mac_of(hardware(2)) : kBroadcastMac;
    std::vector<Frame> batch;
    batch.push_back(frame_of(pool, {to, kHost, kTypes[kind % kTypes.size()]}, packet));
    if ((kind & 0x80) != 0) (void)fit_discovery(batch.front().bytes());
    if ((kind & 0x20) != 0) {
      view.to_host(batch, now);
      for (const Frame& frame : batch) check_written(frame);
      continue;
    }
    std::vector<std::optional<IpAddress>> hops;
    view.from_host(batch, hops, now);
    require(hops.size() == batch.size());
    for (const IpAddress& wanted : std::exchange(view.wanted(), {})) {
      view.on_neighbour(wanted, hardware(kind), (kind & 0x40) != 0, now);
    }
    now += std::chrono::seconds(kind & 0x03);
  }
  std::vector<Frame> answers;
  view.to_host(answers, now);
  for (const Frame& frame : answers) check_written(frame);
  return 0;
}
