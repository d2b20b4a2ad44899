#include "wire/transport.hpp"

#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::wire {

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

std::optional<UpperLayer> upper_layer(ConstBytes ip) {
  if (ip_version(ip) == 4 && ip.size() >= Ipv4Header::kMinimumSize) {
    const std::size_t size = std::size_t{ip[0]} % 16 * 4;
    const bool is_whole = size >= Ipv4Header::kMinimumSize && size <= ip.size();
    if (!is_whole || (load_be<std::uint16_t>(&ip[ipv4::kFragment]) & ipv4::kIsFragment) != 0)
      return std::nullopt;
    return UpperLayer{ip[ipv4::kProtocol], size};
  }
  if (ip_version(ip) != 6 || ip.size() < Ipv6Header::kSize) return std::nullopt;
  return UpperLayer{ip[ipv6::kNextHeader], Ipv6Header::kSize};
}

InternetChecksum pseudo_header(ConstBytes ip, Segmentation::Kind kind, std::size_t length) {
  constexpr std::size_t kIpv4Addresses = 2 * Ipv4Address::kSize;
  constexpr std::size_t kIpv6Addresses = 2 * Ipv6Address::kSize;
  InternetChecksum sum;
  sum.add(ip_version(ip) == 4 ? ip.subspan(ipv4::kAddresses, kIpv4Addresses)
                              : ip.subspan(ipv6::kAddresses, kIpv6Addresses));
  return sum.add(std::uint16_t{kind == Segmentation::Kind::tcp ? kTcp : kUdp})
      .add(static_cast<std::uint16_t>(length));
}

}  // namespace ipoib::wire
