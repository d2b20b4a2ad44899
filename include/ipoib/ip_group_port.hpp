// Seam: a network device's membership of IPv6 multicast groups, which its RoCE port depends on.
// Implemented by src/linux, and in memory by tests.
#pragma once

#include "ipoib/address.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

class IpGroupPort {
 public:
  virtual ~IpGroupPort() = default;

  /// Joins the IPv6 group `mgid`; does nothing if it is joined.
  [[nodiscard]] virtual Result<void> join(const Gid& mgid) = 0;
  /// Leaves the group; does nothing if it is not joined.
  virtual void leave(const Gid& mgid) = 0;
};

}  // namespace ipoib
