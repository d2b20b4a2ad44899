// The ways of packets over one switch that checks nothing: those to a LID read the tables once, and
// again after a change of the subnet.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "softib/subnet/route.hpp"

namespace softib::transport {

/// May be used by any thread. `changes` is Fabric::changes(), read before the tables.
class KnownWays {
 public:
  /// Where packets to `dlid` arrive, unless that is unknown, or known from before a change.
  [[nodiscard]] std::optional<subnet::HcaPort> find(std::uint64_t changes, Lid dlid) const {
    const auto word = ways_[index_of(dlid)].load(std::memory_order_relaxed);
    const subnet::HcaPort to{static_cast<NodeIndex>(word >> kPortBits & kHcaMask),
                             static_cast<std::uint8_t>(word & kPortMask)};
    if (word != word_of(changes, dlid, to)) return std::nullopt;
    return to;
  }
  void keep(std::uint64_t changes, Lid dlid, const subnet::HcaPort& to) {
    ways_[index_of(dlid)].store(word_of(changes, dlid, to), std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kWays = 64;  ///< the LIDs that are known at a time
  static constexpr unsigned kPortBits = 2;
  static constexpr unsigned kHcaBits = 12;
  static constexpr unsigned kLidBits = 16;
  static constexpr std::uint64_t kPortMask = (1U << kPortBits) - 1;
  static constexpr std::uint64_t kHcaMask = (1U << kHcaBits) - 1;
  static_assert(kMaxHcaPorts <= kPortMask && kMaxNodes <= kHcaMask + 1);

  [[nodiscard]] static constexpr std::size_t index_of(Lid dlid) { return dlid.value() % kWays; }
  /// | changes, the low bits 34 | DLID 16 | HCA 12 | port 2 |: one word, so that threads need no
  /// lock. A port number is never 0, so 0 is no way.
  [[nodiscard]] static constexpr std::uint64_t word_of(std::uint64_t changes, Lid dlid,
                                                       const subnet::HcaPort& to) {
    return (changes << kLidBits | dlid.value()) << (kHcaBits + kPortBits) |
           std::uint64_t{to.hca} << kPortBits | to.number;
  }

  std::array<std::atomic<std::uint64_t>, kWays> ways_{};
};

}  // namespace softib::transport
