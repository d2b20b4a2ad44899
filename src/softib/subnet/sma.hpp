// The subnet management agents of all nodes and of the switch (IBA 14.2, 14.3).
//
// Where the subnet manages itself, they answer SubnGet(): its SM has no need of packets here. Where
// it is managed elsewhere, SubnSet() is how ports and tables are programmed, the switch tells of
// links that change by trap 128, and what is for a subnet manager on an HCA is passed on to that.
#pragma once

#include <optional>
#include <utility>

#include "softib/subnet/agent_response.hpp"
#include "softib/subnet/forwarding_tables.hpp"
#include "softib/subnet/smp.hpp"
#include "softib/subnet/subnet_manager.hpp"
#include "softib/subnet/switch_traps.hpp"

namespace softib::subnet {

/// What of SwitchInfo (IBA 14.2.5.4) is written.
struct SwitchSettings {
  std::uint16_t linear_top = 0;
  std::uint8_t default_port = 0;
  std::uint8_t default_primary_port = 0;      ///< of multicast
  std::uint8_t default_not_primary_port = 0;  ///< of multicast
  std::uint8_t life_time = 0;                 ///< 5 bits
  bool links_changed = false;
};

/// What the agents have to do with.
struct ManagedState {
  SubnetManager& manager;
  IsManager is_manager;
  MulticastForwardingTable multicast;
  SwitchSettings settings;
  bool link_changed = false;  ///< by what was written
};

/// One attribute of a node; else the status of the refusal: most likely, that the node has none, or
/// no such block of it.
[[nodiscard]] std::optional<SmpData> get_attribute(const SmpTarget& target,
                                                   const ipoib::wire::MadHeader& header,
                                                   std::uint64_t m_key, const ManagedState& state,
                                                   std::uint16_t& status);
/// Writes an attribute; returns a status, and nothing has changed unless that is 0.
[[nodiscard]] std::uint16_t set_attribute(const SmpTarget& target,
                                          const ipoib::wire::MadHeader& header,
                                          std::span<const std::uint8_t, kSmpDataSize> data,
                                          ManagedState& state);

class SubnetManagementAgents {
 public:
  /// `manager`, and what `is_manager` asks, live as long.
  SubnetManagementAgents(SubnetManager& manager, IsManager is_manager)
      : state_{manager, std::move(is_manager), {}, {}, false} {}

  /// Takes a packet to QP0.
  [[nodiscard]] AgentResult receive(const MadPacket& packet);
  /// A port of the switch has come up, or gone down.
  void link_changed();
  [[nodiscard]] MulticastForwardingTable& multicast() { return state_.multicast; }
  [[nodiscard]] const MulticastForwardingTable& multicast() const { return state_.multicast; }

  /// When on_time() wants to be called.
  [[nodiscard]] ipoib::TimePoint next_deadline() const { return traps_.next_deadline(); }
  /// A trap for the subnet manager, when one is due.
  [[nodiscard]] std::optional<MadPacket> on_time(ipoib::TimePoint now);

 private:
  [[nodiscard]] AgentResult answer(const MadPacket& packet, const ipoib::wire::MadHeader& header,
                                   const SmpTarget& target);

  ManagedState state_;
  SwitchTraps traps_;
};

}  // namespace softib::subnet
