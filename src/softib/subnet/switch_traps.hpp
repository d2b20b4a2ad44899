// Trap 128: the switch tells the subnet manager that links have changed (IBA 14.2.5.1), and repeats
// it until a TrapRepress() says that it has been heard (IBA 13.4.9).
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/time.hpp"
#include "softib/core/mad_packet.hpp"

namespace softib::subnet {

/// Between repetitions.
inline constexpr ipoib::Duration kTrapInterval = std::chrono::seconds(1);

class SwitchTraps {
 public:
  /// A new trap is due. It takes the place of one that has not been heard.
  void links_changed();
  /// Whether the transaction is that of the trap, which has an end then.
  bool repress(std::uint64_t transaction_id);
  /// The beginning of time: now.
  [[nodiscard]] ipoib::TimePoint next_deadline() const { return due_; }
  /// The trap if it is due. Without a subnet manager whom the switch's port knows of there is none:
  /// one that comes will look at everything.
  [[nodiscard]] std::optional<MadPacket> on_time(const PortAttributes& port, ipoib::TimePoint now);

 private:
  std::uint32_t number_ = 0;  ///< the transaction id; its high half names node 0
  ipoib::TimePoint due_ = ipoib::kNever;
};

}  // namespace softib::subnet
