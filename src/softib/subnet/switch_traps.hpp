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
  std::uint32_t number_ = 0;  ///< transaction ID; its high half means node 0
  ipoib::TimePoint due_ = ipoib::kNever;
};

}  // namespace softib::subnet
