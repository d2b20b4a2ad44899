//   0                 1              2             4                20
//   | major 4 minor 4 | version 4, - | source port | source address | destination address |
//
// An IPv4 address is in the last four bytes of its field.
#include "wire/cm_ip_header.hpp"

#include <cassert>

#include "ipoib/overloaded.hpp"

namespace ipoib::wire {

namespace {
constexpr std::uint8_t kIpv4 = 4;
constexpr std::uint8_t kIpv6 = 6;
constexpr std::size_t kIpv4Padding = Ipv6Address::kSize - Ipv4Address::kSize;

IpAddress read_address(ByteReader& reader, std::uint8_t version) {
  if (version == kIpv6) return Ipv6Address(reader.array<Ipv6Address::kSize>());
  reader.skip(kIpv4Padding);
  return Ipv4Address(reader.array<Ipv4Address::kSize>());
}

void write_address(ByteWriter& writer, const IpAddress& address) {
  std::visit(Overloaded{
                 [&](const Ipv4Address& ipv4) {
                   writer.zeros(kIpv4Padding);
                   writer.bytes(ipv4.bytes());
                 },
                 [&](const Ipv6Address& ipv6) { writer.bytes(ipv6.bytes()); },
             },
             address);
}
}  // namespace

std::optional<CmIpHeader> CmIpHeader::parse(ConstBytes private_data) {
  ByteReader reader(private_data);
  const std::uint8_t header_version = reader.u8();
  const std::uint8_t version = reader.u8() >> 4;
  CmIpHeader header;
  header.source_port = reader.u16();
  if (header_version != 0 || (version != kIpv4 && version != kIpv6)) return std::nullopt;
  header.source = read_address(reader, version);
  header.destination = read_address(reader, version);
  if (!reader.ok()) return std::nullopt;
  return header;
}

void CmIpHeader::emit(MutableBytes to) const {
  assert(family(source) == family(destination));
  ByteWriter writer(to);
  writer.u8(0);
  const std::uint8_t version = family(source) == IpFamily::v4 ? kIpv4 : kIpv6;
  writer.u8(static_cast<std::uint8_t>(version << 4));
  writer.u16(source_port);
  write_address(writer, source);
  write_address(writer, destination);
  assert(writer.ok());
}

}  // namespace ipoib::wire
