// A trap: a notice that an agent sends to the SM. The agent repeats it until the SM sends
// TrapRepress() (IBA 13.4.9).
#pragma once

#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/time.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/core/mad_packet.hpp"

namespace softib::subnet {

/// Interval between repetitions, and the least between two traps of one number but 128.
inline constexpr ipoib::Duration kTrapInterval = std::chrono::seconds(1);

struct Trap {
  std::uint32_t number = 0;              ///< of the transaction
  ipoib::TimePoint due = ipoib::kNever;  ///< TimePoint(): immediately; kNever: it is not sent
};

/// | 0: the traps are of node 0 | sender 12 | number 20 |, where the sender is a switch, or a node
/// with its first bit set.
[[nodiscard]] std::uint64_t transaction_of_switch(SwitchIndex index, const Trap& trap);
[[nodiscard]] std::uint64_t transaction_of_node(NodeIndex index, const Trap& trap);
/// The number of the next transaction.
[[nodiscard]] std::uint32_t next_trap_number(std::uint32_t number);

/// The first bytes of a Notice (IBA 13.4.8.2).
struct NoticeHeader {
  static constexpr std::uint8_t kUrgent = 0x81;
  static constexpr std::uint8_t kSecurity = 0x82;
  static constexpr std::uint32_t kFromHca = 1;
  static constexpr std::uint32_t kFromSwitch = 2;
  std::uint8_t type = kUrgent;
  std::uint32_t producer = kFromSwitch;
  std::uint16_t trap = 0;
};

/// Writes a trap of a port to its SM, without its details, which the writer then is for.
[[nodiscard]] ipoib::ByteWriter begin_trap(MadPacket& packet, const PortAttributes& port,
                                           std::uint64_t transaction_id,
                                           const NoticeHeader& notice);

}  // namespace softib::subnet
