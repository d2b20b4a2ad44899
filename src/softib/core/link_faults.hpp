// Faults of an HCA's link, for tests: what it does to the packets that the HCA sends.
#pragma once

#include <algorithm>
#include <cstdint>

namespace softib {

struct LinkFaults {
  static constexpr std::uint16_t kAlways = 10'000;
  static constexpr std::uint16_t kMaxDelay = 10'000;  ///< ms

  // Shares of the packets, in hundredths of a percent.
  std::uint16_t loss = 0;
  std::uint16_t duplicate = 0;  ///< sent twice
  std::uint16_t reorder = 0;    ///< overtaken by later ones
  std::uint16_t delay = 0;      ///< of all packets, ms

  friend bool operator==(const LinkFaults&, const LinkFaults&) = default;

  /// All in one word, which is 0 if there are none.
  [[nodiscard]] constexpr std::uint64_t word() const {
    return std::uint64_t{loss} | std::uint64_t{duplicate} << 16 | std::uint64_t{reorder} << 32 |
           std::uint64_t{delay} << 48;
  }
  /// Reduces values that are too large.
  [[nodiscard]] static constexpr LinkFaults of_word(std::uint64_t word) {
    const auto part = [&](unsigned shift, std::uint16_t most) {
      return std::min(static_cast<std::uint16_t>(word >> shift), most);
    };
    return {part(0, kAlways), part(16, kAlways), part(32, kAlways), part(48, kMaxDelay)};
  }
};

}  // namespace softib
