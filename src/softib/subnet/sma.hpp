// The subnet management agents of all nodes and switches (IBA 14.2, 14.3).
//
// With the subnet's own SM, which needs no packets, they only handle SubnGet(). With an external
// SM, SubnSet() configures ports and tables, a switch reports link changes by trap 128, and MADs
// for an SM on an HCA are forwarded to it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "softib/subnet/agent_response.hpp"
#include "softib/subnet/smp.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// The state that the agents read and write.
struct ManagedState {
  SubnetManager& manager;
  IsManager is_manager;
  std::vector<SwitchIndex>
      link_changes;  ///< the switches that set_attribute() has changed links of
};

/// Reads an attribute of a node. On failure returns nullopt and sets `status`.
[[nodiscard]] std::optional<SmpData> get_attribute(const SmpTarget& target,
                                                   const ipoib::wire::MadHeader& header,
                                                   std::uint64_t m_key, const ManagedState& state,
                                                   std::uint16_t& status);
/// Writes an attribute. Returns a status; if it is not 0, nothing has changed.
[[nodiscard]] std::uint16_t set_attribute(const SmpTarget& target,
                                          const ipoib::wire::MadHeader& header,
                                          std::span<const std::uint8_t, kSmpDataSize> data,
                                          ManagedState& state);

class SubnetManagementAgents {
 public:
  /// `manager` and the state used by `is_manager` must outlive this object.
  SubnetManagementAgents(SubnetManager& manager, IsManager is_manager)
      : state_{manager, std::move(is_manager), {}} {}

  /// Handles a packet to QP0.
  [[nodiscard]] AgentResult receive(const MadPacket& packet);
  /// Must be called when a port of the switch came up or went down.
  void link_changed(SwitchIndex index);

  /// When on_time() must be called.
  [[nodiscard]] ipoib::TimePoint next_deadline() const { return next_trap_; }
  /// Returns the traps for the SM that are due.
  [[nodiscard]] std::vector<MadPacket> on_time(ipoib::TimePoint now);

 private:
  [[nodiscard]] AgentResult respond(const MadPacket& packet, const ipoib::wire::MadHeader& header,
                                    const SmpTarget& target);

  [[nodiscard]] bool repress(std::uint64_t transaction_id);
  void find_next_trap();

  ManagedState state_;
  ipoib::TimePoint next_trap_ = ipoib::kNever;  ///< the first of all switches
};

}  // namespace softib::subnet
