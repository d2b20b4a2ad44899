// The traps of a port of an HCA: 257 and 258, by which it reports to the SM that it has dropped a
// packet with a wrong P_Key or Q_Key (IBA 14.2.5.1).
#pragma once

#include <array>
#include <vector>

#include "softib/core/key_violation.hpp"
#include "softib/subnet/trap.hpp"

namespace softib::subnet {

class KeyTraps {
 public:
  explicit KeyTraps(NodeIndex node) : transactions_(TrapTransactions::of_node(node)) {}

  /// Starts a trap, or changes the one that is being repeated: the last packet counts.
  void violated(CheckedKey key, const KeyViolation& packet);
  /// Ends the trap with this transaction ID. Returns false if there is none.
  bool repress(std::uint64_t transaction_id);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  /// Returns the traps that are due. If the `port` has no SM LID, they are discarded.
  [[nodiscard]] std::vector<MadPacket> on_time(const PortAttributes& port, ipoib::TimePoint now);

 private:
  struct KeyTrap {
    Trap trap;
    KeyViolation packet;
  };
  [[nodiscard]] MadPacket notice(CheckedKey key, const PortAttributes& port) const;

  TrapTransactions transactions_;
  std::array<KeyTrap, kCheckedKeys.size()> traps_{};  ///< by CheckedKey
};

}  // namespace softib::subnet
