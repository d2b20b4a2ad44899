// Bit errors of a link, for tests. Packets that cross such a link carry their ICRC, which the
// receiver checks.
#pragma once

#include <cstdint>
#include <vector>

#include "ipoib/random.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib {

/// The pseudo-random decisions of a faulty link.
class FaultRandom : public ipoib::Random {
 public:
  using Random::Random;
  /// Whether an event that happens in `share` of LinkFaults::kAlways cases happens now.
  [[nodiscard]] bool happens(std::uint16_t share);
};

/// Returns the packet, LRH to padding, followed by its ICRC.
[[nodiscard]] std::vector<std::uint8_t> with_icrc(ConstBytes packet);
/// Whether a result of with_icrc() has arrived unchanged, except for fields that may change on the
/// way (IBA 7.8.1).
[[nodiscard]] bool has_valid_icrc(ConstBytes packet_with_icrc);
[[nodiscard]] ConstBytes without_icrc(ConstBytes packet_with_icrc);
/// Flips bits anywhere in the packet, until the ICRC is wrong.
void add_bit_errors(std::vector<std::uint8_t>& packet_with_icrc, FaultRandom& random);

}  // namespace softib
