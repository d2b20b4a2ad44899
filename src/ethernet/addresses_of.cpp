#include "ethernet/addresses_of.hpp"

#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::ethernet {

std::optional<Addresses> addresses_of(ConstBytes packet) {
  const bool is_ipv6 = wire::ip_version(packet) == 6;
  if (!is_ipv6 && wire::ip_version(packet) != 4) return std::nullopt;
  const auto least = is_ipv6 ? wire::Ipv6Header::kSize : wire::Ipv4Header::kMinimumSize;
  if (packet.size() < least) return std::nullopt;
  ByteReader reader(packet.subspan(is_ipv6 ? wire::ipv6::kAddresses : wire::ipv4::kAddresses));
  const auto next = [&]() -> IpAddress {
    if (is_ipv6) return Ipv6Address(reader.array<Ipv6Address::kSize>());
    return Ipv4Address(reader.array<Ipv4Address::kSize>());
  };
  const IpAddress source = next();
  return Addresses{source, next()};
}

bool is_of_a_host(const IpAddress& address) {
  const auto* const ipv4 = std::get_if<Ipv4Address>(&address);
  if (ipv4 != nullptr && ipv4->is_limited_broadcast()) return false;
  return std::visit(
      [](const auto& any) {
        return !any.is_unspecified() && !any.is_loopback() && !any.is_multicast();
      },
      address);
}

}  // namespace ipoib::ethernet
