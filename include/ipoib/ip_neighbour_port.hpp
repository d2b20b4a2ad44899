// Seam: the neighbours of a network device. The kernel resolves the Ethernet addresses for the
// packets of its RoCE port. Implemented by src/linux, and in memory by tests.
#pragma once

#include "ipoib/address.hpp"

namespace ipoib {

class IpNeighbourPort {
 public:
  enum class State { unknown, reachable, failed };

  virtual ~IpNeighbourPort() = default;

  /// Starts resolution of a neighbour that the kernel does not know.
  virtual void resolve(const Gid& gid) = 0;
  /// The current state of the resolution.
  [[nodiscard]] virtual State state(const Gid& gid) = 0;
};

}  // namespace ipoib
