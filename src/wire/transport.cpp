#include "wire/transport.hpp"

#include "wire/encapsulation.hpp"

namespace ipoib::wire {

using Kind = Segmentation::Kind;

ConstBytes ip_of(ConstBytes frame) {
  const auto type = parse_encapsulation(frame);
  const auto version = type == EtherType::ipv4 ? 4 : type == EtherType::ipv6 ? 6 : 0;
  if (version == 0) return {};
  const auto packet = frame.subspan(kEncapsulationSize);
  return ip_version(packet) == version ? packet : ConstBytes();
}

std::size_t ip_length(ConstBytes ip) {
  return ip_version(ip) == 4
             ? load_be<std::uint16_t>(&ip[ipv4::kTotalLength])
             : Ipv6Header::kSize + load_be<std::uint16_t>(&ip[ipv6::kPayloadLength]);
}

std::size_t transport_header_size(ConstBytes transport, Kind kind) {
  if (kind == Kind::udp) return transport.size() >= kUdpHeader ? kUdpHeader : 0;
  if (transport.size() < tcp::kMinimumSize) return 0;
  const std::size_t size = std::size_t{transport[tcp::kOffsetAndFlags]} / 16 * 4;
  return size >= tcp::kMinimumSize && size <= transport.size() ? size : 0;
}

InternetChecksum pseudo_header(ConstBytes ip, Kind kind, std::size_t length) {
  constexpr std::size_t kIpv4Addresses = 2 * Ipv4Address::kSize;
  constexpr std::size_t kIpv6Addresses = 2 * Ipv6Address::kSize;
  InternetChecksum sum;
  sum.add(ip_version(ip) == 4 ? ip.subspan(ipv4::kAddresses, kIpv4Addresses)
                              : ip.subspan(ipv6::kAddresses, kIpv6Addresses));
  return sum.add(std::uint16_t{protocol_of(kind)}).add(static_cast<std::uint16_t>(length));
}

void emit_large_headers(MutableBytes headers, Kind kind, std::size_t transport, std::size_t size) {
  const auto store = [&](std::size_t at, std::size_t value) {
    store_be(&headers[at], static_cast<std::uint16_t>(value));
  };
  if (ip_version(headers) == 4) {
    store(ipv4::kTotalLength, size);
    store(ipv4::kChecksum, 0);
    store(ipv4::kChecksum, internet_checksum(headers.first(transport)));
  } else {
    store(ipv6::kPayloadLength, size - Ipv6Header::kSize);
  }
  const auto length = size - transport;
  if (kind == Kind::udp) store(transport + udp::kLength, length);
  store(transport + checksum_offset(kind), pseudo_header(headers, kind, length).sum());
}

}  // namespace ipoib::wire
