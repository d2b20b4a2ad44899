// Which processes live on an HCA: who holds the locks of its places.
#pragma once

#include <cstdint>
#include <vector>

#include "softib/fabric.hpp"
#include "softib/folder.hpp"

namespace softib {

struct Occupant {
  std::uint32_t place = 0;
  std::uint32_t epoch = 0;
  int pid = 0;  ///< as it calls itself; 0 when it did not say
};

/// Those that live, by place.
[[nodiscard]] std::vector<Occupant> occupants(const Fabric& fabric, const SubnetFolder& folder,
                                              NodeIndex node);

}  // namespace softib
