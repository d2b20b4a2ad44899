// The traps of a switch: 128, by which it reports link changes to the SM, and 259, by which it
// reports a packet that it has dropped for its P_Key (IBA 14.2.5.1). It repeats each until the SM
// sends TrapRepress() (IBA 13.4.9).
//
// Traps 129 to 131 are of links with errors, full buffers, or without credits, which links of the
// emulation never are.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/subnet/port_checks.hpp"

namespace softib::subnet {

/// Interval between repetitions, and the least between two traps of one number but 128.
inline constexpr ipoib::Duration kTrapInterval = std::chrono::seconds(1);

class SwitchTraps {
 public:
  explicit SwitchTraps(SwitchIndex index = 0) : index_(index) {}

  /// Starts a new trap 128, which replaces one that is being repeated.
  void links_changed();
  /// Starts a new trap 259, or changes the one that is being repeated: the last packet counts.
  void pkey_violated(SwitchPort port, const PacketHeaders& headers);
  /// Ends the trap with this transaction ID. Returns false if there is none.
  bool repress(std::uint64_t transaction_id);
  /// TimePoint() means immediately.
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  /// Returns the traps that are due. If the switch's `port` has no SM LID, they are discarded: an
  /// SM that starts later discovers the whole subnet anyway.
  [[nodiscard]] std::vector<MadPacket> on_time(const PortAttributes& port, ipoib::TimePoint now);

 private:
  struct Trap {
    std::uint32_t number = 0;  ///< of the transaction
    ipoib::TimePoint due = ipoib::kNever;
  };
  [[nodiscard]] std::array<Trap*, 2> all() { return {&links_, &pkeys_}; }
  void start(Trap& trap);
  [[nodiscard]] MadPacket links_notice(const PortAttributes& port) const;
  [[nodiscard]] MadPacket pkey_notice(const PortAttributes& port) const;
  /// | 0: the traps are of node 0 | switch 12 | number 20 |
  [[nodiscard]] std::uint64_t transaction_id(const Trap& trap) const {
    return std::uint64_t{index_} << kNumberBits | trap.number;
  }
  static constexpr unsigned kNumberBits = 20;
  static_assert(kMaxSwitches <= 1U << (32 - kNumberBits));

  SwitchIndex index_;
  std::uint32_t number_ = 0;  ///< of the last transaction
  Trap links_;
  Trap pkeys_;
  SwitchPort violated_port_ = 0;
  PacketHeaders violation_{};
};

}  // namespace softib::subnet
