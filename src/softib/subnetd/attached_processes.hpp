// Which processes live on an HCA: who holds the locks of its places.
#pragma once

#include <cstdint>
#include <vector>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::subnetd {

struct Occupant {
  std::uint32_t place = 0;
  std::uint32_t epoch = 0;
  int pid = 0;  ///< as it calls itself; 0 when it did not say
};

/// Those that live, by place.
[[nodiscard]] std::vector<Occupant> occupants(const fabric::Fabric& fabric,
                                              const fabric::SubnetFolder& folder, NodeIndex node);

/// The process in the first of all places of a node whose lock is held, marked or not: 0 when there
/// is none, -1 for one that did not say who it is. Nobody moves in while the gate is shut.
[[nodiscard]] int inhabitant(const fabric::SubnetFolder& folder, NodeIndex node);

/// Shuts the gate (kGateOctet) as long as the descriptor lives; EBUSY when somebody is in it.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> shut_gate(const fabric::SubnetFolder& folder);

}  // namespace softib::subnetd
