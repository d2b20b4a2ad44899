// The performance management agents of all nodes and of the switch (IBA 16.1): they tell, and set,
// the counters of ports, for perfquery and ibqueryerrors.
//
// The cabling is that of the subnet management agents (sma.hpp): port i + 1 of the switch is the
// other end of node i's, and has received what that has sent.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <utility>

#include "softib/subnet/agent_response.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// What a port counts of PortCounters (IBA 16.1.3.5).
struct PerformanceCounters {
  std::uint64_t receive_errors = 0;
  std::uint64_t relay_errors = 0;  ///< packets that the switch could lead nowhere
  std::uint64_t transmit_discards = 0;
  std::uint64_t vl15_dropped = 0;
  std::uint64_t transmit_data = 0;  ///< in units of 4 octets, as the next
  std::uint64_t receive_data = 0;
  std::uint64_t transmit_packets = 0;
  std::uint64_t receive_packets = 0;
};

class PerformanceAgents {
 public:
  /// What the port of a node has counted since the node was made.
  using Source = std::function<PerformanceCounters(NodeIndex)>;

  explicit PerformanceAgents(Source source) : source_(std::move(source)) {}

  /// Answers a packet of this class to QP1 of any node.
  [[nodiscard]] AgentResult answer(const MadPacket& packet, const SubnetManager& manager);

 private:
  struct Port {
    NodeIndex node = 0;
    bool of_switch = false;
    auto operator<=>(const Port&) const = default;
  };
  [[nodiscard]] PerformanceCounters raw(const Port& port) const;

  Source source_;
  /// What the counters were when they were zero, or were set to something else.
  std::map<Port, PerformanceCounters> zero_;
};

}  // namespace softib::subnet
