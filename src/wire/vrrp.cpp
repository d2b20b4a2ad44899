#include "wire/vrrp.hpp"

#include "ipoib/ip.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {
namespace {

constexpr std::size_t kTtl = 8;              // its place in an IPv4 header
constexpr std::size_t kHopLimit = 7;         // and in an IPv6 one
constexpr std::uint8_t kVrrp = 112;          // protocol number
constexpr std::uint8_t kFromThisLink = 255;  // TTL or hop limit: no router has forwarded it
constexpr Ipv4Address kRouters{0xe0000012};  // 224.0.0.18
constexpr Ipv6Address kRoutersOfIpv6(Ipv6Address::Bytes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                        0, 0, 0x12});

}  // namespace

bool is_vrrp_advertisement(ConstBytes packet) {
  if (ip_version(packet) == 6) {
    if (packet.size() < Ipv6Header::kSize || packet[ipv6::kNextHeader] != kVrrp) return false;
    ByteReader reader(packet.subspan(ipv6::kAddresses + Ipv6Address::kSize));
    return packet[kHopLimit] == kFromThisLink &&
           Ipv6Address(reader.array<Ipv6Address::kSize>()) == kRoutersOfIpv6;
  }
  const UpperLayer upper = upper_layer(packet);
  if (upper.begin == 0 || upper.protocol != kVrrp) return false;
  ByteReader reader(packet.subspan(ipv4::kAddresses + Ipv4Address::kSize));
  return packet[kTtl] == kFromThisLink &&
         Ipv4Address(reader.array<Ipv4Address::kSize>()) == kRouters;
}

}  // namespace ipoib::wire
