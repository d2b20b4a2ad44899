// The address of an Ethernet interface, 48 bits (IEEE 802, 8.2).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ipoib {

class MacAddress {
 public:
  static constexpr std::size_t kSize = 6;
  using Bytes = std::array<std::uint8_t, kSize>;

  constexpr MacAddress() = default;
  constexpr explicit MacAddress(const Bytes& bytes) : bytes_(bytes) {}
  /// From the low 48 bits of a number in host order: 0x020000000001 is 02:00:00:00:00:01.
  constexpr explicit MacAddress(std::uint64_t number) {
    for (std::size_t i = 0; i < kSize; ++i) {
      bytes_[i] = static_cast<std::uint8_t>(number >> (40 - 8 * i));
    }
  }

  [[nodiscard]] constexpr const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] constexpr std::uint64_t number() const {
    std::uint64_t value = 0;
    for (const std::uint8_t byte : bytes_) value = value << 8 | byte;
    return value;
  }
  [[nodiscard]] constexpr bool is_zero() const { return number() == 0; }
  /// The group bit, which the broadcast address has, too.
  [[nodiscard]] constexpr bool is_multicast() const { return (bytes_[0] & 0x01) != 0; }
  /// In lower case: "02:00:00:00:00:01".
  [[nodiscard]] std::string to_string() const;
  /// The inverse of to_string; nullopt for any other text.
  [[nodiscard]] static std::optional<MacAddress> parse(std::string_view text);
  friend constexpr auto operator<=>(const MacAddress&, const MacAddress&) = default;

 private:
  Bytes bytes_{};
};

inline constexpr MacAddress kBroadcastMac{0xffff'ffff'ffff};

}  // namespace ipoib

template <>
struct std::hash<ipoib::MacAddress> {
  std::size_t operator()(const ipoib::MacAddress& address) const noexcept {
    return address.number() * 0x9e3779b97f4a7c15ULL >> 16;
  }
};
