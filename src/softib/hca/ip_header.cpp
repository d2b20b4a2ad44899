#include "softib/hca/ip_header.hpp"

#include <algorithm>

#include "ipoib/bytes.hpp"
#include "softib/core/ip_gid.hpp"
#include "wire/checksum.hpp"

namespace softib::hca {

using ipoib::wire::Grh;

namespace {

constexpr std::size_t kIpv4Header = 20;
constexpr std::size_t kUdpHeader = 8;
constexpr std::uint8_t kUdp = 17;

Gid gid_at(const std::uint8_t* bytes) { return gid_of_ipv4(ipoib::load_be<std::uint32_t>(bytes)); }

}  // namespace

IpHeaderBytes ip_header_of(const Grh& grh) {
  IpHeaderBytes bytes{};
  if (!is_ipv4(grh.dgid)) {
    auto header = grh;
    header.next_header = kUdp;
    header.payload_length = static_cast<std::uint16_t>(grh.payload_length + kUdpHeader);
    header.emit(bytes);
    return bytes;
  }
  const auto ip = std::span(bytes).last<kIpv4Header>();
  ipoib::ByteWriter writer(ip);
  writer.u8(0x45);
  writer.u8(grh.traffic_class);
  writer.u16(static_cast<std::uint16_t>(kIpv4Header + kUdpHeader + grh.payload_length));
  writer.u16(0);
  writer.u16(0x4000);
  writer.u8(grh.hop_limit);
  writer.u8(kUdp);
  writer.u16(0);  // the checksum, which follows
  writer.u32(ipv4_of(grh.sgid));
  writer.u32(ipv4_of(grh.dgid));
  ipoib::store_be(&ip[10], ipoib::wire::internet_checksum(ip));
  return bytes;
}

std::optional<Grh> ipv4_route_of(std::span<const std::uint8_t, Grh::kSize> bytes) {
  const auto ip = bytes.last<kIpv4Header>();
  // An IPv6 header has part of an address here, which can look like an IPv4 header; but its
  // checksum is right with a probability of 2^-16 alone.
  if (ip[0] != 0x45 || ipoib::wire::internet_checksum(ip) != 0) return std::nullopt;
  Grh grh;
  grh.traffic_class = ip[1];
  grh.hop_limit = ip[8];
  grh.sgid = gid_at(ip.data() + 12);
  grh.dgid = gid_at(ip.data() + 16);
  return grh;
}

}  // namespace softib::hca
