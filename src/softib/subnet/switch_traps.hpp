// The traps of a switch: 128, by which it reports link changes to the SM, 129 to 131, by which it
// reports errors of a link, and 259, by which it reports a packet that it has dropped for its P_Key
// (IBA 14.2.5.1). It repeats each until the SM sends TrapRepress() (IBA 13.4.9).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "softib/subnet/subnet_types.hpp"
#include "softib/subnet/trap.hpp"

namespace softib::subnet {

class SwitchTraps {
 public:
  explicit SwitchTraps(SwitchIndex index = 0) : transactions_(TrapTransactions::of_switch(index)) {}

  /// Starts a new trap 128, which replaces one that is being repeated.
  void links_changed();
  /// Starts a trap 129 to 131. While one of another port is being repeated, it waits.
  void link_failed(LinkError error, SwitchPort port);
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
  /// A trap that is about a port.
  struct PortTrap {
    Trap trap;
    SwitchPort port = 0;
    PortSet waiting;  ///< ports that it will be about, by number - 1
  };
  void start_next(PortTrap& of);
  [[nodiscard]] std::array<Trap*, 2 + kLinkErrors> all();
  [[nodiscard]] MadPacket notice(const Trap& trap, const PortAttributes& port) const;
  [[nodiscard]] MadPacket links_notice(const PortAttributes& port) const;
  [[nodiscard]] MadPacket error_notice(std::size_t error, const PortAttributes& port) const;
  [[nodiscard]] MadPacket pkey_notice(const PortAttributes& port) const;

  TrapTransactions transactions_;
  Trap links_;
  std::array<PortTrap, kLinkErrors> errors_;  ///< by LinkError
  Trap pkeys_;
  SwitchPort violated_port_ = 0;
  PacketHeaders violation_{};
};

}  // namespace softib::subnet
