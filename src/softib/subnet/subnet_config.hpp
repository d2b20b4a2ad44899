// Configuration of a subnet: what the operator decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "softib/subnet/partition.hpp"
#include "softib/topology/topology.hpp"

namespace softib::subnet {

/// Who manages the subnet: assigns LIDs, creates partitions, fills the switch's tables.
enum class Management : std::uint8_t {
  own,         ///< the subnet process, with SM and SA at node 0
  external_sm  ///< a subnet manager on one of the HCAs; node 0 is the switch
};

/// The MTU that the operator has set for a port of an HCA.
struct PortMtu {
  std::string hca;
  std::uint8_t mtu = 0;   ///< IBA code
  std::uint8_t port = 1;  ///< its number
  friend bool operator==(const PortMtu&, const PortMtu&) = default;
};

struct SubnetConfig {
  Management management = Management::own;
  std::vector<Partition> partitions{default_partition()};
  /// IBA code of the MTU of ports, and of groups unless their partition specifies one. With an
  /// external SM: the maximum MTU of ports.
  std::uint8_t mtu = 4;
  std::uint8_t lmc = 0;       ///< of HCA ports, at most ipoib::kMaxLmc
  bool grh_required = false;  ///< of the ports of HCAs
  std::uint64_t seed = 0;     ///< GUIDs are derived from it and the name of the node
  std::vector<PortMtu>
      port_mtus;  ///< of ports that exist and whose MTU is another; at most kMaxNodes
  /// The network interface, or one of its addresses, whose RoCE port is the only HCA; empty: this
  /// is an InfiniBand subnet.
  std::string roce{};
  /// nullopt: one switch, to which any HCA is connected when it is added.
  std::optional<topology::Topology> topology{};
};

}  // namespace softib::subnet
