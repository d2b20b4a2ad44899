// IP addresses as values, in network order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "ipoib/bytes.hpp"

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
  /// Compares numbers: faster than comparing arrays, which is a function call.
  friend constexpr bool operator==(const Ipv4Address& a, const Ipv4Address& b) {
    return a.number() == b.number();
  }

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
  [[nodiscard]] constexpr bool is_unspecified() const { return bytes_ == Bytes{}; }
  [[nodiscard]] constexpr bool is_loopback() const {
    constexpr Bytes kOne{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    return bytes_ == kOne;
  }
  [[nodiscard]] constexpr bool is_multicast() const { return bytes_[0] == 0xff; }
  /// fe80::/10 (RFC 4291, 2.5.6).
  [[nodiscard]] constexpr bool is_link_local() const {
    return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
  }
  /// The solicited-node multicast address (RFC 4291, 2.7.1).
  [[nodiscard]] constexpr Ipv6Address solicited_node() const {
    return Ipv6Address(Bytes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xff, bytes_[13],
                             bytes_[14], bytes_[15]});
  }
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] static std::optional<Ipv6Address> parse(std::string_view text);
  friend constexpr auto operator<=>(const Ipv6Address&, const Ipv6Address&) = default;

 private:
  Bytes bytes_{};
};

using IpAddress = std::variant<Ipv4Address, Ipv6Address>;
enum class IpFamily : std::uint8_t { v4, v6 };
[[nodiscard]] constexpr IpFamily family(const IpAddress& address) {
  return std::holds_alternative<Ipv4Address>(address) ? IpFamily::v4 : IpFamily::v6;
}
[[nodiscard]] std::string to_string(const IpAddress& address);
[[nodiscard]] std::optional<IpAddress> parse_ip_address(std::string_view text);

}  // namespace ipoib

template <>
struct std::hash<ipoib::Ipv4Address> {
  std::size_t operator()(const ipoib::Ipv4Address& address) const noexcept {
    return address.number() * 0x9e3779b97f4a7c15ULL >> 16;
  }
};
template <>
struct std::hash<ipoib::Ipv6Address> {
  std::size_t operator()(const ipoib::Ipv6Address& address) const noexcept {
    const auto high = ipoib::load_be<std::uint64_t>(address.bytes().data());
    const auto low = ipoib::load_be<std::uint64_t>(address.bytes().data() + 8);
    return (high * 0x9e3779b97f4a7c15ULL ^ low) * 0xff51afd7ed558ccdULL >> 16;
  }
};
