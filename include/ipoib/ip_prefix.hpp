// IP prefixes.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "ipoib/ip.hpp"

namespace ipoib {

/// A prefix, or an address with its prefix length, which is at most the address's number of bits.
struct IpPrefix {
  IpAddress address;
  std::uint8_t length = 0;

  [[nodiscard]] bool contains(const IpAddress& other) const {
    return address.index() == other.index() && network(address, length) == network(other, length);
  }
  /// The subnet-directed broadcast address of IPv4; none for /31 and /32 (RFC 3021).
  [[nodiscard]] constexpr std::optional<Ipv4Address> broadcast() const {
    const auto* const ipv4 = std::get_if<Ipv4Address>(&address);
    if (ipv4 == nullptr || length > 30) return std::nullopt;
    return Ipv4Address(ipv4->number() | ~std::uint32_t{0} >> length);
  }
  /// The first `length` bits of `address`, the others zero.
  [[nodiscard]] static IpAddress network(const IpAddress& address, std::uint8_t length) {
    return std::visit(
        [length](const auto& any) -> IpAddress {
          auto bytes = any.bytes();
          for (std::size_t i = 0; i < bytes.size(); ++i) {
            const int bits = std::clamp(length - static_cast<int>(8 * i), 0, 8);
            bytes[i] = static_cast<std::uint8_t>(bytes[i] & 0xff << (8 - bits));
          }
          return std::decay_t<decltype(any)>(bytes);
        },
        address);
  }
  friend constexpr auto operator<=>(const IpPrefix&, const IpPrefix&) = default;
};

}  // namespace ipoib
