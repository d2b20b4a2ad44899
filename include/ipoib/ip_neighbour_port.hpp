// Seam: the neighbours of a network device, whose kernel finds out the Ethernet addresses that a
// RoCE port's packets go to. Implemented by src/linux, and by a map in memory in tests.
#pragma once

#include "ipoib/address.hpp"

namespace ipoib {

class IpNeighbourPort {
 public:
  enum class State { unknown, reachable, failed };

  virtual ~IpNeighbourPort() = default;

  /// Has the kernel look for a neighbour, if it does not know it.
  virtual void look_for(const Gid& gid) = 0;
  /// What it has found so far.
  [[nodiscard]] virtual State state(const Gid& gid) = 0;
};

}  // namespace ipoib
