#include "offload/flow.hpp"

#include <algorithm>

#include "wire/dhcp.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::offload {
namespace {

using Kind = Segmentation::Kind;

std::uint16_t word(ConstBytes bytes, std::size_t at) { return load_be<std::uint16_t>(&bytes[at]); }
std::uint32_t number(ConstBytes bytes, std::size_t at) {
  return load_be<std::uint32_t>(&bytes[at]);
}
bool is_ipv4(const FlowPacket& packet) { return wire::ip_version(packet.bytes) == 4; }
ConstBytes transport_of(const FlowPacket& packet) { return packet.bytes.subspan(packet.transport); }
std::uint16_t flags_of(const FlowPacket& packet) {
  return word(transport_of(packet), wire::tcp::kOffsetAndFlags) & wire::tcp::kFlags;
}

bool are_equal(ConstBytes one, ConstBytes other, std::size_t begin, std::size_t end) {
  return std::equal(one.begin() + static_cast<std::ptrdiff_t>(begin),
                    one.begin() + static_cast<std::ptrdiff_t>(end),
                    other.begin() + static_cast<std::ptrdiff_t>(begin));
}

std::size_t header_size(ConstBytes transport, Kind kind) {
  if (kind == Kind::udp) {
    const bool fits = transport.size() >= wire::kUdpHeader &&
                      word(transport, wire::udp::kLength) == transport.size();
    return fits ? wire::kUdpHeader : 0;
  }
  return wire::transport_header_size(transport, kind);
}

/// A hash of the ports and of the end of an address, where hosts of one network differ.
std::uint32_t tag_of(ConstBytes packet, std::size_t transport) {
  constexpr std::size_t kAddress = 4;
  return number(packet, transport) ^
         number(packet, transport == wire::Ipv6Header::kSize ? wire::Ipv6Header::kSize - kAddress
                                                             : wire::ipv4::kAddresses) *
             31;
}

bool has_valid_checksums(const FlowPacket& packet) {
  const auto transport = transport_of(packet);
  if (is_ipv4(packet) && wire::internet_checksum(packet.bytes.first(packet.transport)) != 0) {
    return false;
  }
  return wire::pseudo_header(packet.bytes, packet.kind, transport.size()).add(transport).value() ==
         0;
}

/// Whether a datagram can be coalesced. One without a checksum cannot, since it could not be
/// verified; nor can DHCP, whose programs read packet sockets, where the kernel does not segment
/// large packets.
bool can_coalesce_udp(ConstBytes transport) {
  const auto port = word(transport, wire::udp::kDestinationPort);
  return word(transport, wire::udp::kChecksum) != 0 && port != wire::kDhcpServerPort &&
         port != wire::kDhcpClientPort;
}

/// The identification of an atomic IPv4 packet (unfragmented, with DF) is ignored (RFC 6864, 4.1).
bool ip_continues(const FlowPacket& first, const FlowPacket& next, std::size_t count) {
  const auto one = first.bytes;
  const auto other = next.bytes;
  if (!is_ipv4(first)) {
    return are_equal(one, other, 0, wire::ipv6::kPayloadLength) &&
           are_equal(one, other, wire::ipv6::kPayloadLength + 2, wire::Ipv6Header::kSize);
  }
  const bool is_atomic = (word(one, wire::ipv4::kFragment) & wire::ipv4::kDontFragment) != 0;
  const auto id = static_cast<std::uint16_t>(word(one, wire::ipv4::kIdentification) + count);
  return are_equal(one, other, 0, wire::ipv4::kTotalLength) &&
         are_equal(one, other, wire::ipv4::kFragment, wire::ipv4::kChecksum) &&
         (is_atomic || word(other, wire::ipv4::kIdentification) == id);
}

bool tcp_continues(const FlowPacket& first, const FlowPacket& next, std::size_t before) {
  const auto one = transport_of(first);
  const auto other = transport_of(next);
  constexpr auto kLastFlags = wire::tcp::kPush | wire::tcp::kFin;
  const auto sequence = static_cast<std::uint32_t>(number(one, wire::tcp::kSequence) + before);
  return number(other, wire::tcp::kSequence) == sequence && first.payload == next.payload &&
         ((flags_of(first) ^ flags_of(next)) & ~kLastFlags) == 0 &&
         are_equal(one, other, wire::tcp::kAcknowledgement, wire::tcp::kOffsetAndFlags) &&
         are_equal(one, other, wire::tcp::kWindow, wire::tcp::kChecksum) &&
         are_equal(one, other, wire::tcp::kUrgent, std::size_t{first.payload} - first.transport);
}

}  // namespace

std::optional<FlowPacket> parse_flow(ConstBytes packet, UpperLayer upper) {
  const Kind kind = wire::kind_of(upper.protocol);
  if (kind == Kind::none || wire::ip_length(packet) != packet.size()) return std::nullopt;
  const std::size_t size = header_size(packet.subspan(upper.begin), kind);
  if (size == 0) return std::nullopt;
  return FlowPacket{packet, kind, upper.begin, static_cast<std::uint8_t>(upper.begin + size),
                    tag_of(packet, upper.begin)};
}

bool is_same_flow(const FlowPacket& one, const FlowPacket& other) {
  if (one.tag != other.tag || one.kind != other.kind || is_ipv4(one) != is_ipv4(other)) {
    return false;
  }
  constexpr std::size_t kPorts = 4;
  const std::size_t addresses = is_ipv4(one) ? wire::ipv4::kAddresses : wire::ipv6::kAddresses;
  const std::size_t end = is_ipv4(one) ? wire::Ipv4Header::kMinimumSize : wire::Ipv6Header::kSize;
  return are_equal(one.bytes, other.bytes, addresses, end) &&
         are_equal(transport_of(one), transport_of(other), 0, kPorts);
}

bool can_coalesce(const FlowPacket& packet, bool checksums_valid) {
  if (packet.payload_size() == 0) return false;
  if (is_ipv4(packet) && packet.transport != wire::Ipv4Header::kMinimumSize) return false;
  if (packet.kind == Kind::tcp) {
    constexpr auto kAllowed =
        wire::tcp::kAck | wire::tcp::kEcnEcho | wire::tcp::kPush | wire::tcp::kFin;
    const auto flags = flags_of(packet);
    if ((flags & ~kAllowed) != 0 || (flags & wire::tcp::kAck) == 0) return false;
  } else if (!can_coalesce_udp(transport_of(packet))) {
    return false;
  }
  return checksums_valid || has_valid_checksums(packet);
}

bool continues(const FlowPacket& first, const FlowPacket& next, std::size_t count,
               std::size_t size) {
  if (next.payload_size() > size || !ip_continues(first, next, count)) return false;
  return first.kind == Kind::udp || tcp_continues(first, next, count * size);
}

bool is_last(const FlowPacket& packet) {
  return packet.kind == Kind::tcp && (flags_of(packet) & (wire::tcp::kPush | wire::tcp::kFin)) != 0;
}

}  // namespace ipoib::offload
