// The parts of the view that its stations use.
#pragma once

#include <vector>

#include "ethernet/host_identity.hpp"
#include "ethernet/host_messages.hpp"
#include "ethernet/neighbour_macs.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::ethernet {

/// The parts of the view that outlive its stations.
struct StationDependencies {
  const HostIdentity& host;
  NeighbourMacs& neighbours;
  HostMessages& messages;
  std::vector<IpAddress>& wanted;  ///< addresses that the link is to solicit
};

}  // namespace ipoib::ethernet
