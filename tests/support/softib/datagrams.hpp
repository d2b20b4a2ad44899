// IPoIB datagrams without valid checksums, for tests of checksum offload and segmentation.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <vector>

#include "ipoib/bytes.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"

namespace softib::test {

using ipoib::ConstBytes;
using Bytes = std::vector<std::uint8_t>;

inline constexpr std::size_t kIp = 4;
inline constexpr std::uint8_t kTcp = 6;
inline constexpr std::uint8_t kUdp = 17;
inline constexpr std::uint16_t kWrongChecksum = 0xbad1;

struct Shape {
  const char* name;
  int version;
  std::uint8_t protocol;
  std::size_t payload;
  std::size_t ip_options = 0;
};
inline void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

[[nodiscard]] inline std::size_t transport_of(const Shape& shape) {
  return kIp + (shape.version == 4 ? 20 + shape.ip_options : 40);
}
[[nodiscard]] inline std::size_t checksum_offset(const Shape& shape) {
  return transport_of(shape) + (shape.protocol == kTcp ? 16 : 6);
}

/// The checksums are kWrongChecksum.
[[nodiscard]] inline Bytes datagram(const Shape& shape) {
  const std::size_t length = (shape.protocol == kTcp ? 20 : 8) + shape.payload;
  Bytes out(transport_of(shape) + length);
  std::iota(out.begin() + static_cast<std::ptrdiff_t>(transport_of(shape)), out.end(),
            std::uint8_t{200});
  ipoib::ByteWriter writer(out);
  writer.u16(shape.version == 4 ? 0x0800 : 0x86dd);
  writer.u16(0);
  if (shape.version == 4) {
    writer.u8(static_cast<std::uint8_t>(0x45 + shape.ip_options / 4));
    writer.u8(0);
    writer.u16(static_cast<std::uint16_t>(out.size() - kIp));
    writer.u32(0x12344000);
    writer.u8(64);
    writer.u8(shape.protocol);
    writer.u16(kWrongChecksum);
    writer.u32(0x0a000001);
    writer.u32(0x0a0000fe);
    for (std::size_t i = 0; i < shape.ip_options; ++i) writer.u8(1);
  } else {
    writer.u32(0x60000000);
    writer.u16(static_cast<std::uint16_t>(length));
    writer.u8(shape.protocol);
    writer.u8(64);
    for (std::uint8_t i = 0; i < 32; ++i) writer.u8(static_cast<std::uint8_t>(0x20 + i));
  }
  if (shape.protocol == kUdp) {
    ipoib::store_be(&out[transport_of(shape) + 4], static_cast<std::uint16_t>(length));
  }
  ipoib::store_be(&out[checksum_offset(shape)], kWrongChecksum);
  return out;
}

/// The headers of a large packet.
[[nodiscard]] inline Bytes tso_headers(const Shape& shape) {
  auto out = datagram({"", shape.version, shape.protocol, 3000, shape.ip_options});
  out.resize(transport_of(shape) + (shape.protocol == kTcp ? 20 : 8));
  if (shape.protocol == kTcp) out[transport_of(shape) + 12] = 0x50;
  return out;
}
inline constexpr std::array kTsoShapes{
    Shape{"tcp4", 4, kTcp, 0}, Shape{"tcp4_options", 4, kTcp, 0, 40}, Shape{"udp4", 4, kUdp, 0},
    Shape{"tcp6", 6, kTcp, 0}, Shape{"udp6", 6, kUdp, 0}};

/// The checksum over pseudo-header, TCP or UDP header and payload: 0 if the packet is correct.
[[nodiscard]] inline std::uint16_t transport_sum(const Bytes& bytes, const Shape& shape) {
  const auto ip = ConstBytes(bytes).subspan(kIp);
  const auto transport = ConstBytes(bytes).subspan(transport_of(shape));
  ipoib::wire::InternetChecksum sum;
  if (shape.version == 4) {
    const auto header = ipoib::wire::Ipv4Header::parse(ip);
    sum.add_pseudo_header(header->source, header->destination, shape.protocol,
                          static_cast<std::uint16_t>(transport.size()));
  } else {
    const auto header = ipoib::wire::Ipv6Header::parse(ip);
    sum.add_pseudo_header(header->source, header->destination, shape.protocol,
                          static_cast<std::uint32_t>(transport.size()));
  }
  return sum.add(transport).value();
}

}  // namespace softib::test
