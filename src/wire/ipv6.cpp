// RFC 8200, 3:
//
//   0         4                8                24            40
//   | version, traffic class,  | payload| next  | source      | destination |
//   | flow label   (4, 8, 20)  | length | hdr,  |             |             |
//   |                          |        | hops  |             |             |
#include "wire/ipv6.hpp"

#include <cassert>

#include "wire/ipv4.hpp"

namespace ipoib::wire {

std::optional<Ipv6Header> Ipv6Header::parse(ConstBytes packet) {
  if (packet.size() < kSize || ip_version(packet) != 6) return std::nullopt;
  ByteReader reader(packet);
  const std::uint32_t first = reader.u32();
  Ipv6Header header;
  header.traffic_class = static_cast<std::uint8_t>(first >> 20);
  header.flow_label = first & 0xfffff;
  header.payload_length = reader.u16();
  header.next_header = reader.u8();
  header.hop_limit = reader.u8();
  header.source = Ipv6Address(reader.array<Ipv6Address::kSize>());
  header.destination = Ipv6Address(reader.array<Ipv6Address::kSize>());
  if (header.payload_length > reader.left()) return std::nullopt;
  return header;
}

void Ipv6Header::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u32(6U << 28 | std::uint32_t{traffic_class} << 20 | (flow_label & 0xfffff));
  writer.u16(payload_length);
  writer.u8(next_header);
  writer.u8(hop_limit);
  writer.bytes(source.bytes());
  writer.bytes(destination.bytes());
  assert(writer.ok());
}

Ipv6Address link_local_address(Guid guid) {
  constexpr std::uint64_t kPrefix = 0xfe80'0000'0000'0000;
  constexpr std::uint64_t kUniversal = 0x0200'0000'0000'0000;
  Ipv6Address::Bytes bytes;
  store_be(bytes.data(), kPrefix);
  store_be(bytes.data() + sizeof kPrefix, guid.value() | kUniversal);
  return Ipv6Address(bytes);
}

}  // namespace ipoib::wire
