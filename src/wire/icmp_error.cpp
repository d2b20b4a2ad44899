// RFC 792 with RFC 1191, 4, and RFC 4443, 3.1 and 3.2, after the IP header:
//
//   0      1      2          4          6            8
//   | 3    | 1    | checksum | 0        | 0          | as much of the packet as fits in 576 bytes
//   | 3    | 4    | checksum | 0        | MTU        | the same
//   | 1    | 3    | checksum | 0                     | as much of the packet as fits in 1280 bytes
//   | 2    | 0    | checksum | MTU                   | the same
#include "wire/icmp_error.hpp"

#include <algorithm>
#include <cassert>

#include "wire/checksum.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {
namespace {

constexpr std::size_t kIcmpHeader = 8;
constexpr std::uint8_t kErrorHopLimit = 64;

namespace icmp {
constexpr std::uint8_t kProtocol = 1;
constexpr std::uint8_t kEchoReply = 0;
constexpr std::uint8_t kEchoRequest = 8;
constexpr std::uint8_t kUnreachable = 3;
// Codes of kUnreachable.
constexpr std::uint8_t kNetworkUnreachable = 0;
constexpr std::uint8_t kHostUnreachable = 1;
constexpr std::uint8_t kFragmentationNeeded = 4;
/// The size within which an error has "as much of the original datagram as possible" (RFC 1812,
/// 4.3.2.3).
constexpr std::size_t kMaxSize = 576;
}  // namespace icmp

namespace icmpv6 {
constexpr std::uint8_t kFirstInformational = 128;
constexpr std::uint8_t kUnreachable = 1;
// Codes of kUnreachable.
constexpr std::uint8_t kNoRoute = 0;
constexpr std::uint8_t kAddressUnreachable = 3;
constexpr std::uint8_t kPacketTooBig = 2;
constexpr std::uint8_t kRedirect = 137;
}  // namespace icmpv6

/// The first bytes of a message, without the checksum.
struct Error {
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  std::uint32_t mtu = 0;
};

/// Whether an address belongs to a single host (RFC 1122, 3.2.2).
bool is_single_host(Ipv4Address source) {
  const bool is_class_e = source.bytes()[0] >= 0xf0;  // and limited broadcast
  return !source.is_unspecified() && !source.is_loopback() && !source.is_multicast() && !is_class_e;
}

/// Whether an error about the packet is allowed: not about an error, a later fragment, or a packet
/// to a group or to all (RFC 1122, 3.2.2).
bool may_report(const Ipv4Header& header, ConstBytes packet) {
  const auto fragment = load_be<std::uint16_t>(packet.data() + ipv4::kFragment) & 0x1fff;
  if (fragment != 0 || header.destination.is_multicast() ||
      header.destination.is_limited_broadcast() || !is_single_host(header.source)) {
    return false;
  }
  if (header.protocol != icmp::kProtocol) return true;
  if (header.total_length <= header.header_size) return false;
  const std::uint8_t type = packet[header.header_size];
  return type == icmp::kEchoRequest || type == icmp::kEchoReply;
}

/// Whether an error about the packet is allowed. RFC 4443, 2.4 (e) permits errors about multicast,
/// but there is no source address for them.
bool may_report(const Ipv6Header& header, ConstBytes packet) {
  if (header.source.is_unspecified() || header.source.is_multicast() ||
      header.destination.is_multicast()) {
    return false;
  }
  if (header.next_header != kIcmpv6) return true;
  if (header.payload_length == 0) return false;
  const std::uint8_t type = packet[Ipv6Header::kSize];
  return type >= icmpv6::kFirstInformational && type != icmpv6::kRedirect;
}

std::size_t emit_ipv4(const Ipv4Header& about, ConstBytes packet, const Error& error,
                      MutableBytes to) {
  constexpr std::size_t kHeaders = Ipv4Header::kMinimumSize + kIcmpHeader;
  const std::size_t quoted = std::min<std::size_t>(about.total_length, icmp::kMaxSize - kHeaders);
  const std::size_t size = kHeaders + quoted;
  ByteWriter writer(to.first(size));
  writer.u8(0x45);
  writer.u8(0xc0);  // RFC 1812, 4.3.2.5: precedence "internetwork control"
  writer.u16(static_cast<std::uint16_t>(size));
  writer.zeros(4);
  writer.u8(kErrorHopLimit);
  writer.u8(icmp::kProtocol);
  writer.zeros(2);
  writer.bytes(about.destination.bytes());
  writer.bytes(about.source.bytes());
  writer.u8(error.type);
  writer.u8(error.code);
  writer.zeros(4);
  writer.u16(static_cast<std::uint16_t>(error.mtu));
  writer.bytes(packet.first(quoted));
  assert(writer.ok());
  store_be(to.data() + ipv4::kChecksum, internet_checksum(to.first(Ipv4Header::kMinimumSize)));
  const auto message = to.subspan(Ipv4Header::kMinimumSize, kIcmpHeader + quoted);
  store_be(message.data() + kIcmpChecksumOffset, internet_checksum(message));
  return size;
}

std::size_t emit_ipv6(const Ipv6Header& about, ConstBytes packet, const Error& error,
                      MutableBytes to) {
  const std::size_t size = Ipv6Header::kSize + about.payload_length;
  const std::size_t quoted = std::min(size, kMaxIcmpError - Ipv6Header::kSize - kIcmpHeader);
  const std::size_t length = kIcmpHeader + quoted;
  const Ipv6Header header{.source = about.destination,
                          .destination = about.source,
                          .traffic_class = 0,
                          .flow_label = 0,
                          .payload_length = static_cast<std::uint16_t>(length),
                          .next_header = kIcmpv6,
                          .hop_limit = kErrorHopLimit};
  header.emit(to);
  const auto message = to.subspan(Ipv6Header::kSize, length);
  ByteWriter writer(message);
  writer.u8(error.type);
  writer.u8(error.code);
  writer.zeros(2);
  writer.u32(error.mtu);
  writer.bytes(packet.first(quoted));
  assert(writer.ok());
  store_be(message.data() + kIcmpChecksumOffset,
           InternetChecksum()
               .add_pseudo_header(header.source, header.destination, kIcmpv6,
                                  static_cast<std::uint32_t>(length))
               .add(message)
               .value());
  return Ipv6Header::kSize + length;
}

std::size_t emit(ConstBytes packet, const Error& ipv4, const Error& ipv6, MutableBytes to) {
  assert(to.size() >= kMaxIcmpError);
  if (const auto header = Ipv4Header::parse(packet)) {
    return may_report(*header, packet) ? emit_ipv4(*header, packet, ipv4, to) : 0;
  }
  if (const auto header = Ipv6Header::parse(packet)) {
    return may_report(*header, packet) ? emit_ipv6(*header, packet, ipv6, to) : 0;
  }
  return 0;
}

}  // namespace

std::size_t emit_too_big(ConstBytes packet, std::uint32_t mtu, MutableBytes to) {
  return emit(packet, {icmp::kUnreachable, icmp::kFragmentationNeeded, mtu},
              {icmpv6::kPacketTooBig, 0, mtu}, to);
}

std::size_t emit_unreachable(ConstBytes packet, MutableBytes to) {
  return emit(packet, {icmp::kUnreachable, icmp::kHostUnreachable, 0},
              {icmpv6::kUnreachable, icmpv6::kAddressUnreachable, 0}, to);
}

std::size_t emit_no_route(ConstBytes packet, MutableBytes to) {
  return emit(packet, {icmp::kUnreachable, icmp::kNetworkUnreachable, 0},
              {icmpv6::kUnreachable, icmpv6::kNoRoute, 0}, to);
}

}  // namespace ipoib::wire
