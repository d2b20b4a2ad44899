#include "link_packets.hpp"

#include <algorithm>

#include "offload/segmenter.hpp"
#include "wire/arp.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/mgid.hpp"
#include "wire/transport.hpp"

namespace ipoib::fuzz {

using link::kHeadroom;

// --- Values --------------------------------------------------------------------------------------

Ipv4Address Packets::ipv4() {
  const std::uint8_t pick = in_.u8();
  switch (pick) {
    case 0xff:
      return Ipv4Address(0xe0000001);
    case 0xfe:
      return Ipv4Address(in_.u32());
    case 0xfd:
      return Ipv4Address(0xef010100U + in_.u8() % 12);  // groups
    case 0xfc:
      return Ipv4Address(in_.u8() % 2 == 0 ? 0x0a0000ff : 0xffffffff);
    case 0xfb:
      return Ipv4Address(0x0b000000U + in_.u8() % 16);  // not on the link
    default:
      return Ipv4Address(0x0a000000U + pick % 24);
  }
}

Ipv6Address Packets::ipv6() {
  const std::uint8_t pick = in_.u8();
  if (pick == 0xff) return {};
  Ipv6Address::Bytes bytes{0xfe, 0x80};
  if (pick >= 0xf0) bytes = {0xff, 0x02};
  if (pick >= 0xe0 && pick < 0xe8) bytes = {0x20, 0x01};  // not on the link
  bytes[15] = pick % 24;
  return pick == 0xef ? Ipv6Address(bytes).solicited_node() : Ipv6Address(bytes);
}

HwAddress Packets::hardware() {
  const std::uint8_t pick = in_.u8();
  return HwAddress{static_cast<std::uint8_t>(pick & 0x80), Qpn(pick % 7U), gid(pick % 11)};
}

Gid Packets::mgid() {
  const std::uint8_t scope = in_.u8() % 4 == 0 ? 5 : wire::kLinkLocalScope;
  return in_.u8() % 2 == 0 ? wire::multicast_gid(ipv4(), kDefaultPKey, scope)
                           : wire::multicast_gid(ipv6(), kDefaultPKey, scope);
}

// --- Packets of the host -------------------------------------------------------------------------

Frame Packets::frame_of(std::size_t begin, ConstBytes bytes) {
  Frame frame = pools_.frames.take();
  if (!frame) return frame;
  frame.window(begin, bytes.size());
  std::ranges::copy(bytes, frame.bytes().begin());
  return frame;
}

Frame Packets::packet() {
  switch (in_.u8() % 8) {
    case 0:
      return raw(kHeadroom);
    case 1:
    case 2:
      return ipv4_packet(ipv4());
    case 3:
      return ipv6_packet(ipv6());
    case 4:
      return odd_packet();
    case 5:
      return large_packet();
    case 6:
      return discovery();
    default:
      return mutated(discovery());
  }
}

Frame Packets::raw(std::size_t begin) {
  return frame_of(begin, in_.take(std::min<std::size_t>(in_.u8(), in_.left())));
}

Frame Packets::ipv4_packet(Ipv4Address to) {
  std::array<std::uint8_t, 64> packet{0x45, 0, 0, 64};
  std::ranges::copy(to.bytes(), packet.begin() + 16);
  return frame_of(kHeadroom, packet);
}

Frame Packets::ipv6_packet(const Ipv6Address& to) {
  std::array<std::uint8_t, 64> packet{};
  wire::Ipv6Header{.source = ipv6(),
                   .destination = to,
                   .payload_length = 24,
                   .next_header = in_.u8(),
                   .hop_limit = 64}
      .emit(packet);
  return frame_of(kHeadroom, packet);
}

/// | size 16 | flags 8: 6 without DF, 7 IPv6 | TOS 8 | header words 8 | fragment 16 | protocol 8 |
Frame Packets::odd_packet() {
  constexpr std::size_t kMost = 4000;
  std::array<std::uint8_t, kMost> packet{};
  const std::size_t size = 64 + in_.u16() % (kMost - 64);
  const std::uint8_t how = in_.u8();
  const std::uint8_t tos = in_.u8();
  if ((how & 0x80) != 0) {
    wire::Ipv6Header{.source = ipv6(),
                     .destination = ipv6(),
                     .traffic_class = tos,
                     .payload_length = static_cast<std::uint16_t>(size - wire::Ipv6Header::kSize),
                     .next_header = in_.u8(),
                     .hop_limit = 64}
        .emit(packet);
  } else {
    packet[0] = static_cast<std::uint8_t>(0x45 + in_.u8() % 11);
    packet[1] = tos;
    store_be(&packet[wire::ipv4::kTotalLength], static_cast<std::uint16_t>(size));
    store_be(&packet[wire::ipv4::kFragment],
             static_cast<std::uint16_t>((how & 0x40) != 0 ? in_.u16() & 0x3fff : 0x4000));
    packet[wire::ipv4::kProtocol] = in_.u8();
    std::ranges::copy(ipv4().bytes(), packet.begin() + 12);
    std::ranges::copy(ipv4().bytes(), packet.begin() + 16);
  }
  const auto bytes = in_.take(std::min<std::size_t>(how % 32U, in_.left()));
  std::ranges::copy(bytes, packet.begin() + (how % 2 == 0 ? 20 : 40));
  return frame_of(kHeadroom, ConstBytes(packet).first(size));
}

Frame Packets::large_packet() {
  const std::uint8_t how = in_.u8();
  const bool is_ipv6 = (how & 1) != 0;
  const auto kind = (how & 2) != 0 ? Segmentation::Kind::udp : Segmentation::Kind::tcp;
  const std::size_t transport = is_ipv6 ? 40 : 20;
  const std::size_t size = transport + 20 + 1 + in_.u16() % 12'000U;
  const std::size_t segment = 1 + in_.u16() % 4096U;
  Frame frame = pools_.large.take();
  if (!frame) return frame;
  frame.window(kHeadroom, size);
  const MutableBytes packet = frame.bytes();
  std::ranges::fill(packet.first(transport + 20), std::uint8_t{0});
  if (is_ipv6) {
    wire::Ipv6Header{.source = ipv6(),
                     .destination = ipv6(),
                     .payload_length = static_cast<std::uint16_t>(size - transport),
                     .next_header = wire::protocol_of(kind),
                     .hop_limit = 64}
        .emit(packet);
  } else {
    packet[0] = 0x45;
    store_be(&packet[wire::ipv4::kTotalLength], static_cast<std::uint16_t>(size));
    packet[wire::ipv4::kFragment] = (how & 4) != 0 ? 0x40 : 0;
    packet[wire::ipv4::kProtocol] = wire::protocol_of(kind);
    std::ranges::copy(ipv4().bytes(), packet.begin() + 12);
    std::ranges::copy(ipv4().bytes(), packet.begin() + 16);
  }
  if (kind == Segmentation::Kind::tcp) packet[transport + 12] = 0x50;
  const auto plan = offload::plan_segments(packet, kind, transport, segment);
  if (!plan || plan->count(size) < 2) return {};
  frame.set_segmentation(*plan);
  return frame;
}

Frame Packets::discovery() {
  const std::uint8_t pick = in_.u8();
  if (pick >= 0xa0) return router_message(static_cast<wire::NdType>(133 + pick % 5));
  wire::NdMessage message;
  message.type =
      pick % 2 == 0 ? wire::NdType::neighbour_solicitation : wire::NdType::neighbour_advertisement;
  message.is_solicited = (pick & 2) != 0;
  message.overrides = (pick & 4) != 0;
  message.source = ipv6();
  message.destination = ipv6();
  message.target = ipv6();
  if ((pick & 8) != 0) message.source_link_layer = hardware();
  if ((pick & 16) != 0) message.target_link_layer = hardware();
  std::array<std::uint8_t, wire::NdMessage::kMaxEmitted + wire::kLinkLayerOptionSize> bytes{};
  return frame_of(kHeadroom, ConstBytes(bytes).first(message.emit(bytes)));
}

/// Any message, with the fields of the redirect, an option of the input and link-layer options.
Frame Packets::router_message(wire::NdType type) {
  std::array<std::uint8_t, 256> packet{};
  ByteWriter out(MutableBytes(packet).subspan(wire::Ipv6Header::kSize));
  out.u8(static_cast<std::uint8_t>(type));
  out.zeros(7);
  const bool has_target = type != wire::NdType::router_solicitation;
  if (type == wire::NdType::router_advertisement) {
    out.zeros(8);
  } else if (has_target) {
    out.bytes(ipv6().bytes());
    if (type == wire::NdType::redirect) out.bytes(ipv6().bytes());
  }
  const std::uint8_t options = in_.u8();
  for (const int option : {1, 2}) {
    if ((options & option) == 0) continue;
    out.u8(static_cast<std::uint8_t>(option));
    out.u8(3);
    out.zeros(2);
    out.bytes(hardware().bytes());
  }
  if ((options & 4) != 0) {
    out.u8(in_.u8());
    out.u8(in_.u8() % 4);
    out.bytes(in_.take(std::min<std::size_t>(options / 8U, in_.left())));
  }
  const wire::Ipv6Header header{.source = ipv6(),
                                .destination = ipv6(),
                                .payload_length = static_cast<std::uint16_t>(out.written()),
                                .next_header = wire::kIcmpv6,
                                .hop_limit = 255};
  header.emit(packet);
  const MutableBytes message = MutableBytes(packet).subspan(wire::Ipv6Header::kSize, out.written());
  store_be(&message[2], wire::InternetChecksum()
                            .add_pseudo_header(header.source, header.destination, wire::kIcmpv6,
                                               static_cast<std::uint32_t>(message.size()))
                            .add(message)
                            .value());
  return frame_of(kHeadroom, ConstBytes(packet).first(wire::Ipv6Header::kSize + message.size()));
}

// --- Datagrams -----------------------------------------------------------------------------------

Frame Packets::arp() {
  const bool is_request = in_.u8() % 2 == 0;
  const HwAddress sender = hardware();
  const Ipv4Address address = ipv4();
  return arp_of(sender, address, ipv4(), is_request);
}

Frame Packets::arp_of(const HwAddress& sender, Ipv4Address address, Ipv4Address target,
                      bool is_request) {
  wire::Arp message;
  message.operation = is_request ? wire::ArpOperation::request : wire::ArpOperation::reply;
  message.sender_hardware = sender;
  message.sender_protocol = address;
  message.target_protocol = target;
  std::array<std::uint8_t, wire::kEncapsulationSize + wire::Arp::kSize> bytes{};
  wire::emit_encapsulation(wire::EtherType::arp, bytes.data());
  message.emit(MutableBytes(bytes).subspan(wire::kEncapsulationSize));
  return frame_of(0, bytes);
}

Frame Packets::encapsulated(Frame packet) {
  if (!packet) return packet;
  const bool is_ipv6 = wire::ip_version(std::as_const(packet).bytes()) == 6;
  wire::emit_encapsulation(is_ipv6 ? wire::EtherType::ipv6 : wire::EtherType::ipv4,
                           packet.prepend(wire::kEncapsulationSize));
  return packet;
}

Frame Packets::mutated(Frame frame) {
  if (!frame || frame.size() == 0) return frame;
  const std::size_t at = in_.u8() % frame.size();
  frame.bytes()[at] = in_.u8();
  if (in_.u8() % 4 == 0) frame.window(frame.headroom(), at);
  return frame;
}

// --- Configuration of the host -------------------------------------------------------------------

IpPrefix Packets::prefix() {
  const IpAddress address = ip();
  const unsigned bits = family(address) == IpFamily::v4 ? 32 : 128;
  return {address, static_cast<std::uint8_t>(in_.u8() % (bits + 1))};
}

// What a kernel accepts: unicast addresses of its own, and gateways of the same family or of IPv6.

IpAddress Packets::one_of(std::uint32_t v4, Ipv6Address::Bytes v6) {
  const std::uint8_t pick = in_.u8() % 24;
  if (pick % 2 == 0) return Ipv4Address(v4 + pick);
  v6[15] = pick;
  return Ipv6Address(v6);
}

IpAddress Packets::own_address() { return one_of(0x0a000000U, {0xfe, 0x80}); }

IpAddress Packets::group() { return one_of(0xef010100U, {0xff, 0x02}); }

IpAddress Packets::gateway(IpFamily of) {
  const IpAddress address = own_address();
  return of == IpFamily::v4 || family(address) == IpFamily::v6 ? address : IpAddress(ipv6());
}

RoutingTable Packets::routing_table() {
  RoutingTable table{.id = 252U + in_.u8() % 3, .routes = {}};
  for (unsigned left = in_.u8() % 5U; left > 0; --left) {
    HostRoute route{.destination = prefix(), .metric = in_.u8() % 3U, .hops = {}};
    route.tos = in_.u8() % 8 == 0 ? in_.u8() : 0;
    route.preference = static_cast<HostRoute::Preference>(in_.u8() % 3);
    for (unsigned hops = 1 + in_.u8() % 3U; hops > 0; --hops) {
      const auto weight = static_cast<std::uint16_t>(1 + in_.u8());
      const IpAddress gateway_of = gateway(family(route.destination.address));
      route.hops.push_back({in_.u8() % 4 == 0 ? std::nullopt : std::optional(gateway_of), weight});
    }
    table.routes.push_back(std::move(route));
  }
  return table;
}

RoutingRule Packets::routing_rule() {
  RoutingRule rule{.family = in_.u8() % 2 == 0 ? IpFamily::v4 : IpFamily::v6,
                   .table = 252U + in_.u8() % 3};
  const std::uint8_t has = in_.u8();
  if ((has & 1) != 0) rule.source = prefix();
  if ((has & 2) != 0) rule.destination = prefix();
  if ((has & 4) != 0) rule.protocol = in_.u8();
  if ((has & 8) != 0) rule.destination_ports = PortRange{in_.u16(), in_.u16()};
  if ((has & 16) != 0) rule.jump = in_.u8() % 4U;
  if ((has & 32) != 0) rule.ignored_bits = in_.u8() % 33;
  rule.is_inverted = (has & 64) != 0;
  rule.is_certain = (has & 128) == 0;
  rule.input = static_cast<RoutingRule::Input>(in_.u8() % 3);
  rule.priority = in_.u8() % 4U;
  return rule;
}

HostView Packets::host_view() {
  HostView view;
  const std::uint8_t flags = in_.u8();
  for (unsigned left = flags % 4U; left > 0; --left) {
    const IpAddress address = own_address();
    const unsigned bits = family(address) == IpFamily::v4 ? 32 : 128;
    view.addresses.push_back({address, static_cast<std::uint8_t>(in_.u8() % (bits + 1))});
  }
  view.is_ipv6_router = (flags & 4) != 0;
  view.routes_ipv4_multicast = (flags & 8) != 0;
  view.routes_ipv6_multicast = (flags & 16) != 0;
  if ((flags & 32) != 0) {
    const std::uint8_t policy = in_.u8();
    view.arp = {static_cast<std::uint8_t>(policy % 9), static_cast<std::uint8_t>(policy / 9 % 3),
                policy % 2 != 0, policy % 3 == 0};
    view.local.push_back(prefix());
    view.of_larger_scope.push_back(ipv4());
    view.proxied.push_back(ipv4());
  }
  if ((flags & 64) != 0) {
    for (unsigned left = in_.u8() % 3U; left > 0; --left) view.tables.push_back(routing_table());
    for (unsigned left = in_.u8() % 4U; left > 0; --left) view.rules.push_back(routing_rule());
    for (unsigned left = in_.u8() % 3U; left > 0; --left) {
      const IpAddress to = ip();
      view.redirects.push_back({to, gateway(family(to))});
    }
  }
  if ((flags & 128) != 0) {
    for (unsigned left = in_.u8() % 12U; left > 0; --left) view.groups.push_back(group());
  }
  return view;
}

}  // namespace ipoib::fuzz
