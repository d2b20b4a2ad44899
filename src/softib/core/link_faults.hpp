// Faults of an HCA's link, for tests: what it does to the packets that the HCA sends.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace softib {

struct LinkFaults {
  static constexpr std::uint16_t kAlways = 10'000;
  static constexpr std::uint16_t kMaxDelay = 10'000;  ///< ms
  using Words = std::array<std::uint64_t, 2>;

  // Shares of the packets, in hundredths of a per cent.
  std::uint16_t loss = 0;
  std::uint16_t duplicate = 0;  ///< sent twice
  std::uint16_t reorder = 0;    ///< overtaken by later packets
  std::uint16_t delay = 0;      ///< of all packets, ms
  std::uint16_t corrupt = 0;    ///< bits are flipped, so that the ICRC is wrong
  std::uint16_t cm_loss = 0;    ///< of messages of communication management, added to `loss`
  /// Seed of the decisions which packets and bits are affected; with 0 each process has a seed of
  /// its own.
  std::uint32_t seed = 0;

  friend bool operator==(const LinkFaults&, const LinkFaults&) = default;

  [[nodiscard]] constexpr bool any() const {
    return loss != 0 || duplicate != 0 || reorder != 0 || delay != 0 || corrupt != 0 ||
           cm_loss != 0;
  }
  [[nodiscard]] constexpr Words words() const {
    return {std::uint64_t{loss} | std::uint64_t{duplicate} << 16 | std::uint64_t{reorder} << 32 |
                std::uint64_t{delay} << 48,
            std::uint64_t{corrupt} | std::uint64_t{cm_loss} << 16 | std::uint64_t{seed} << 32};
  }
  /// Reduces values that are too large.
  [[nodiscard]] static constexpr LinkFaults of_words(const Words& words) {
    const auto part = [](std::uint64_t word, unsigned shift, std::uint16_t most) {
      return std::min(static_cast<std::uint16_t>(word >> shift), most);
    };
    return {part(words[0], 0, kAlways),
            part(words[0], 16, kAlways),
            part(words[0], 32, kAlways),
            part(words[0], 48, kMaxDelay),
            part(words[1], 0, kAlways),
            part(words[1], 16, kAlways),
            static_cast<std::uint32_t>(words[1] >> 32)};
  }
};

}  // namespace softib
