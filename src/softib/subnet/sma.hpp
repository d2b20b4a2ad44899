// The subnet management agents of all nodes and switches (IBA 14.2, 14.3).
//
// With the subnet's own SM, which needs no packets, they only handle SubnGet(). With an external
// SM, SubnSet() configures ports and tables; switches report link changes, errors of links, and
// packets with a wrong P_Key by traps, HCAs packets with a wrong P_Key or Q_Key; and MADs for an SM
// on an HCA are forwarded to it.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "softib/core/key_violation.hpp"
#include "softib/subnet/agent_response.hpp"
#include "softib/subnet/key_traps.hpp"
#include "softib/subnet/performance.hpp"
#include "softib/subnet/smp.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// What ports of HCAs have dropped for a key, as processes count it in shared memory; empty: they
/// count nothing.
struct KeyViolationSource {
  std::function<std::uint64_t(NodeIndex, CheckedKey)> packets;
  /// Returns nullopt if it is unknown.
  std::function<std::optional<KeyViolation>(NodeIndex, CheckedKey)> last;
  std::function<void(NodeIndex, CheckedKey)> reset;
};

/// The state that the agents read and write.
struct ManagedState {
  SubnetManager& manager;
  IsManager is_manager;
  KeyViolationSource violations;
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

/// What ports of switches have dropped for its P_Key, as processes count it in shared memory.
struct PKeyViolations {
  /// The number of packets, of a port.
  std::function<std::uint64_t(const Attachment&)> count;
  std::function<PacketHeaders(const Attachment&)> last;
};

/// The counters of a switch's port.
using SwitchPortCounters = std::function<PerformanceCounters(const Attachment&)>;

class SubnetManagementAgents {
 public:
  /// `manager` and the state used by the functions must outlive this object.
  SubnetManagementAgents(SubnetManager& manager, IsManager is_manager, PKeyViolations violations,
                         KeyViolationSource key_violations, SwitchPortCounters counters)
      : state_{manager, std::move(is_manager), std::move(key_violations), {}},
        violations_(std::move(violations)),
        counters_(std::move(counters)) {}

  /// Handles a packet to QP0.
  [[nodiscard]] AgentResult receive(const MadPacket& packet);
  /// Must be called when a port of the switch came up or went down.
  void link_changed(SwitchIndex index);
  /// Counts an error of a port's link. An external SM gets a trap.
  void link_failed(const Attachment& at, LinkError error);
  /// The counters of a switch's port begin with 0, since the HCA there is gone.
  void forget(const Attachment& at) { integrity_.erase(at); }

  /// When on_time() must be called.
  [[nodiscard]] ipoib::TimePoint next_deadline() const {
    return looks() ? std::min(next_trap_, look_at_) : next_trap_;
  }
  /// Returns the traps for the SM that are due.
  [[nodiscard]] std::vector<MadPacket> on_time(ipoib::TimePoint now);

 private:
  [[nodiscard]] AgentResult respond(const MadPacket& packet, const ipoib::wire::MadHeader& header,
                                    const SmpTarget& target);

  [[nodiscard]] bool repress(std::uint64_t transaction_id);
  /// Whether there are ports whose counters may be a reason for a trap.
  [[nodiscard]] bool looks() const {
    const Switches& switches = std::as_const(state_.manager).switches();
    return !switches.filters().empty() || !switches.lossy().empty() || reports_keys();
  }
  /// Whether HCAs report packets with a wrong key.
  [[nodiscard]] bool reports_keys() const {
    return !state_.manager.has_own_sm() && state_.violations.packets;
  }
  void find_violations();
  void find_key_violations();
  void find_link_errors();
  void find_next_trap();

  ManagedState state_;
  PKeyViolations violations_;
  SwitchPortCounters counters_;
  /// The violations that are known, of the ports that check P_Keys.
  std::map<Attachment, std::uint64_t, AttachmentOrder> known_violations_;
  /// What is known of a port of an HCA.
  struct PortKeys {
    explicit PortKeys(NodeIndex node) : traps(node) {}
    std::array<std::uint64_t, kCheckedKeys.size()> packets{};  ///< with a wrong key, by CheckedKey
    KeyTraps traps;
  };
  std::map<NodeIndex, PortKeys> keys_;
  bool has_looked_at_keys_ = false;
  /// What is known of a port whose cable loses packets.
  struct Integrity {
    std::uint64_t packets = 0;  ///< received, with and without errors
    std::uint64_t errors = 0;
    std::uint64_t level = 0;  ///< errors, less packets without
  };
  std::map<Attachment, Integrity, AttachmentOrder> integrity_;
  ipoib::TimePoint look_at_{};                  ///< when to look at counters again, if looks()
  ipoib::TimePoint next_trap_ = ipoib::kNever;  ///< the first of all agents
};

}  // namespace softib::subnet
