// RFC 791, 3.1; only these fields are parsed:
//
//   0         1     2              4                 9         10         12       16
//   | ver,IHL | TOS | total length | id, frag, TTL | protocol | checksum | source | destination |
#include "wire/ipv4.hpp"

namespace ipoib::wire {

std::optional<Ipv4Header> Ipv4Header::parse(ConstBytes packet) {
  if (packet.size() < kMinimumSize || ip_version(packet) != 4) return std::nullopt;
  ByteReader reader(packet);
  std::optional<Ipv4Header> parsed(std::in_place);  // written in place: see packet.cpp
  Ipv4Header& header = *parsed;
  header.header_size = size_by(reader.u8());
  reader.skip(1);
  header.total_length = reader.u16();
  reader.skip(5);
  header.protocol = reader.u8();
  reader.skip(2);
  header.source = Ipv4Address(reader.array<Ipv4Address::kSize>());
  header.destination = Ipv4Address(reader.array<Ipv4Address::kSize>());

  const bool fits = header.header_size >= kMinimumSize &&
                    header.header_size <= header.total_length &&
                    header.total_length <= packet.size();
  if (!fits) parsed.reset();
  return parsed;
}

}  // namespace ipoib::wire
