// Seam: a network device's membership of IPv6 multicast groups, below which a RoCE port receives.
// Implemented by src/linux, and by a set in memory in tests.
#pragma once

#include "ipoib/address.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

class IpGroupPort {
 public:
  virtual ~IpGroupPort() = default;

  /// Joins the group whose address an MGID is; one that is joined already stays so.
  [[nodiscard]] virtual Result<void> join(const Gid& mgid) = 0;
  /// Leaves it, if it is joined.
  virtual void leave(const Gid& mgid) = 0;
};

}  // namespace ipoib
