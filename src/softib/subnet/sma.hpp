// The subnet management agents of all nodes and of the switch (IBA 14.2, 14.3).
//
// With the subnet's own SM, which needs no packets, they only handle SubnGet(). With an external
// SM, SubnSet() configures ports and tables, the switch reports link changes by trap 128, and MADs
// for an SM on an HCA are forwarded to it.
#pragma once

#include <optional>
#include <utility>

#include "softib/subnet/agent_response.hpp"
#include "softib/subnet/forwarding_tables.hpp"
#include "softib/subnet/multicast_groups.hpp"
#include "softib/subnet/smp.hpp"
#include "softib/subnet/subnet_manager.hpp"
#include "softib/subnet/switch_traps.hpp"

namespace softib::subnet {

/// The writable fields of SwitchInfo (IBA 14.2.5.4).
struct SwitchSettings {
  std::uint16_t linear_top = 0;
  std::uint8_t default_port = 0;
  std::uint8_t default_primary_port = 0;      ///< for multicast
  std::uint8_t default_not_primary_port = 0;  ///< for multicast
  std::uint8_t life_time = 0;                 ///< 5 bits
  bool links_changed = false;
};

/// The state that the agents read and write.
struct ManagedState {
  SubnetManager& manager;
  const MulticastGroups& groups;  ///< of the subnet's own SM
  IsManager is_manager;
  MulticastForwardingTable multicast;  ///< which an external SM writes
  SwitchSettings settings;
  bool link_changed = false;  ///< set by set_attribute()
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
  /// `manager`, `groups` and the state used by `is_manager` must outlive this object.
  SubnetManagementAgents(SubnetManager& manager, const MulticastGroups& groups,
                         IsManager is_manager)
      : state_{manager, groups, std::move(is_manager), {}, {}, false} {}

  /// Handles a packet to QP0.
  [[nodiscard]] AgentResult receive(const MadPacket& packet);
  /// Must be called when a port of the switch came up or went down.
  void link_changed();
  [[nodiscard]] MulticastForwardingTable& multicast() { return state_.multicast; }
  [[nodiscard]] const MulticastForwardingTable& multicast() const { return state_.multicast; }

  /// When on_time() must be called.
  [[nodiscard]] ipoib::TimePoint next_deadline() const { return traps_.next_deadline(); }
  /// Returns a trap for the SM if one is due.
  [[nodiscard]] std::optional<MadPacket> on_time(ipoib::TimePoint now);

 private:
  [[nodiscard]] AgentResult respond(const MadPacket& packet, const ipoib::wire::MadHeader& header,
                                    const SmpTarget& target);

  ManagedState state_;
  SwitchTraps traps_;
};

}  // namespace softib::subnet
