// The performance management agents of all nodes and of the switch (IBA 16.1). They read and set
// the counters of ports, for perfquery and ibqueryerrors.
//
// Port i + 1 of the switch is connected to node i (smp.hpp): what one end has sent, the other end
// has received.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <utility>

#include "softib/subnet/agent_response.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// The fields of PortCounters that are counted (IBA 16.1.3.5).
struct PerformanceCounters {
  std::uint64_t symbol_errors = 0;    ///< packets with bit errors
  std::uint64_t link_recoveries = 0;  ///< LinkErrorRecovery
  std::uint64_t links_lost = 0;       ///< LinkDowned
  std::uint64_t receive_errors = 0;   ///< these, and malformed packets
  std::uint64_t relay_errors = 0;     ///< packets that the switch could not forward
  std::uint64_t transmit_discards = 0;
  std::uint64_t transmit_constraints = 0;  ///< packets that the switch did not send for their P_Key
  std::uint64_t receive_constraints = 0;   ///< packets that it dropped on arrival for their P_Key
  std::uint64_t integrity_errors = 0;      ///< LocalLinkIntegrityErrors
  std::uint64_t overruns = 0;              ///< ExcessiveBufferOverrunErrors
  std::uint64_t vl15_dropped = 0;
  std::uint64_t transmit_data = 0;  ///< in units of 4 bytes, like receive_data
  std::uint64_t receive_data = 0;
  std::uint64_t transmit_packets = 0;
  std::uint64_t receive_packets = 0;
};

class PerformanceAgents {
 public:
  /// The counters of a node's port since the node was created.
  using Source = std::function<PerformanceCounters(NodeIndex)>;
  /// What a port of a switch has sent to another switch, and discarded.
  using CableSource = std::function<PerformanceCounters(SwitchIndex, SwitchPort)>;

  explicit PerformanceAgents(Source source, CableSource cables = {})
      : source_(std::move(source)), cables_(std::move(cables)) {}

  /// The counters of a switch's port since the switch was created.
  [[nodiscard]] PerformanceCounters counters(const Attachment& at,
                                             const SubnetManager& manager) const {
    return raw({true, at.switch_index, at.port}, manager);
  }
  /// The counters of a node's port, which is gone, and of the switch's port there begin with 0.
  void forget(NodeIndex node, const Attachment& at) {
    offsets_.erase({false, node, 0});
    offsets_.erase({true, at.switch_index, at.port});
  }
  /// Handles a packet of this class to QP1 of any node.
  [[nodiscard]] AgentResult handle(const MadPacket& packet, const SubnetManager& manager);

 private:
  struct Port {
    bool of_switch = false;
    std::uint16_t index = 0;  ///< of the switch or the node
    SwitchPort number = 0;    ///< of the switch's port
    auto operator<=>(const Port&) const = default;
  };
  [[nodiscard]] PerformanceCounters raw(const Port& port, const SubnetManager& manager) const;

  Source source_;
  CableSource cables_;
  /// Subtracted from the raw counters, because they were set to other values.
  std::map<Port, PerformanceCounters> offsets_;
};

}  // namespace softib::subnet
