// Seam: the kernel's announcements of changes of routes. Implemented by RouteFeed, and in memory by
// tests.
#pragma once

#include <string>
#include <vector>

#include "ipoib/route_changes.hpp"

namespace ipoib::linux {

class RouteSource {
 public:
  virtual ~RouteSource() = default;

  /// The descriptor is readable if there are announcements.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// Appends what the kernel has announced until now about routes through the interface, in order,
  /// up to a limit; then the descriptor is still readable.
  virtual void read(std::vector<RouteChange>& changes) = 0;
  /// Sets the interface's new name, which rules may have as a condition.
  virtual void rename(const std::string& name) = 0;
};

}  // namespace ipoib::linux
