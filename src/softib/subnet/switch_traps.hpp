// Trap 128: the switch reports link changes to the SM (IBA 14.2.5.1) and repeats the trap until the
// SM sends TrapRepress() (IBA 13.4.9).
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/time.hpp"
#include "softib/core/mad_packet.hpp"

namespace softib::subnet {

/// Interval between repetitions.
inline constexpr ipoib::Duration kTrapInterval = std::chrono::seconds(1);

class SwitchTraps {
 public:
  explicit SwitchTraps(SwitchIndex index = 0) : index_(index) {}

  /// Starts a new trap, which replaces one that is being repeated.
  void links_changed();
  /// Ends the trap with this transaction ID. Returns false if there is none.
  bool repress(std::uint64_t transaction_id);
  /// TimePoint() means immediately.
  [[nodiscard]] ipoib::TimePoint next_deadline() const { return due_; }
  /// Returns the trap if it is due. If the switch's `port` has no SM LID, the trap is discarded: an
  /// SM that starts later discovers the whole subnet anyway.
  [[nodiscard]] std::optional<MadPacket> on_time(const PortAttributes& port, ipoib::TimePoint now);

 private:
  /// | 0: the traps are of node 0 | switch 12 | number 20 |
  [[nodiscard]] std::uint64_t transaction_id() const {
    return std::uint64_t{index_} << kNumberBits | number_;
  }
  static constexpr unsigned kNumberBits = 20;
  static_assert(kMaxSwitches <= 1U << (32 - kNumberBits));

  SwitchIndex index_;
  std::uint32_t number_ = 0;
  ipoib::TimePoint due_ = ipoib::kNever;
};

}  // namespace softib::subnet
