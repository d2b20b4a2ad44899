// Packet sequence numbers: 24 bits, which wrap (IBA 9.7.1).
#pragma once

#include <cstdint>

namespace ipoib::wire {

class Psn {
 public:
  static constexpr std::uint32_t kMask = 0xffffff;

  constexpr Psn() = default;
  /// Takes the low 24 bits.
  constexpr explicit Psn(std::uint32_t value) : value_(value & kMask) {}
  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }

  [[nodiscard]] friend constexpr Psn operator+(Psn psn, std::uint32_t packets) {
    return Psn(psn.value_ + packets);
  }
  [[nodiscard]] constexpr Psn previous() const { return Psn(value_ - 1); }
  /// The distance from `other` to `psn` in packets, from -2^23 to 2^23 - 1; negative if `psn` comes
  /// first.
  [[nodiscard]] friend constexpr std::int32_t operator-(Psn psn, Psn other) {
    constexpr std::int32_t kHalf = 1 << 23;
    const auto distance = static_cast<std::int32_t>((psn.value_ - other.value_) & kMask);
    return distance < kHalf ? distance : distance - 2 * kHalf;
  }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  std::uint32_t value_ = 0;
};

}  // namespace ipoib::wire
