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

/// The transactions of an agent's traps, whose IDs name the agent:
///   | 0: the traps are of node 0 | agent 12 | number 20 |
/// The agent is a switch, or a node with the first of these bits set.
class TrapTransactions {
 public:
  [[nodiscard]] static TrapTransactions of_switch(SwitchIndex index);
  [[nodiscard]] static TrapTransactions of_node(NodeIndex index);

  [[nodiscard]] std::uint64_t id(const Trap& trap) const { return agent_ | trap.number; }
  /// Starts a new transaction, whose trap is due.
  void start(Trap& trap);
  /// Ends a trap that is being repeated. Returns false if it is not, or has another ID.
  [[nodiscard]] bool repress(Trap& trap, std::uint64_t transaction_id) const;

 private:
  explicit TrapTransactions(std::uint64_t agent) : agent_(agent) {}

  std::uint64_t agent_;
  std::uint32_t number_ = 0;  ///< of the last one
};

/// Whether the port knows its SM.
[[nodiscard]] bool has_sm(const PortAttributes& port);
/// Whether the trap of a port is to be sent now; then it is due again later. Without an SM it ends.
[[nodiscard]] bool take_due(Trap& trap, const PortAttributes& port, ipoib::TimePoint now);

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
