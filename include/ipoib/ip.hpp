// IP addresses as values, in network order.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ipoib {

class Ipv4Address {
 public:
  static constexpr std::size_t kSize = 4;
  using Bytes = std::array<std::uint8_t, kSize>;

  constexpr Ipv4Address() = default;
  constexpr explicit Ipv4Address(const Bytes& bytes) : bytes_(bytes) {}
  /// From a number in host order: 0x0a2c0001 is 10.44.0.1.
  constexpr explicit Ipv4Address(std::uint32_t number)
      : bytes_{static_cast<std::uint8_t>(number >> 24), static_cast<std::uint8_t>(number >> 16),
               static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)} {}

  [[nodiscard]] constexpr const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] constexpr std::uint32_t number() const {
    return std::uint32_t{bytes_[0]} << 24 | std::uint32_t{bytes_[1]} << 16 |
           std::uint32_t{bytes_[2]} << 8 | std::uint32_t{bytes_[3]};
  }
  [[nodiscard]] constexpr bool is_unspecified() const { return number() == 0; }
  [[nodiscard]] constexpr bool is_multicast() const { return (bytes_[0] & 0xf0) == 0xe0; }
  [[nodiscard]] constexpr bool is_limited_broadcast() const { return number() == 0xffffffff; }
  [[nodiscard]] constexpr bool is_loopback() const { return bytes_[0] == 127; }
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] static std::optional<Ipv4Address> parse(std::string_view text);
  friend constexpr auto operator<=>(const Ipv4Address&, const Ipv4Address&) = default;

 private:
  Bytes bytes_{};
};

class Ipv6Address {
 public:
  static constexpr std::size_t kSize = 16;
  using Bytes = std::array<std::uint8_t, kSize>;

  constexpr Ipv6Address() = default;
  constexpr explicit Ipv6Address(const Bytes& bytes) : bytes_(bytes) {}

  [[nodiscard]] constexpr const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] constexpr bool is_multicast() const { return bytes_[0] == 0xff; }
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] static std::optional<Ipv6Address> parse(std::string_view text);
  friend constexpr auto operator<=>(const Ipv6Address&, const Ipv6Address&) = default;

 private:
  Bytes bytes_{};
};

using IpAddress = std::variant<Ipv4Address, Ipv6Address>;
[[nodiscard]] std::string to_string(const IpAddress& address);
[[nodiscard]] std::optional<IpAddress> parse_ip_address(std::string_view text);

/// An address of the host with the length of its prefix, 0 to 32 bits.
struct Ipv4Prefix {
  Ipv4Address address;
  std::uint8_t length = 32;

  [[nodiscard]] constexpr std::uint32_t mask() const {
    return length == 0 ? 0 : ~std::uint32_t{0} << (32 - length);
  }
  [[nodiscard]] constexpr bool contains(Ipv4Address other) const {
    return ((address.number() ^ other.number()) & mask()) == 0;
  }
  /// The subnet-directed broadcast address; none for /31 and /32 (RFC 3021).
  [[nodiscard]] constexpr std::optional<Ipv4Address> broadcast() const {
    if (length > 30) return std::nullopt;
    return Ipv4Address(address.number() | ~mask());
  }
  friend constexpr auto operator<=>(const Ipv4Prefix&, const Ipv4Prefix&) = default;
};

}  // namespace ipoib

template <>
struct std::hash<ipoib::Ipv4Address> {
  std::size_t operator()(const ipoib::Ipv4Address& address) const noexcept {
    return address.number() * 0x9e3779b97f4a7c15ULL >> 16;
  }
};
