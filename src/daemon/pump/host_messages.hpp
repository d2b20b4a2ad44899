// Messages about the host's configuration between the control thread, which reads it, and the
// thread of an interface.
#pragma once

#include <memory>

#include "ipoib/host_view.hpp"
#include "ipoib/time.hpp"
#include "link/host_routes.hpp"

namespace ipoib::daemon {

/// To the interface's thread.
struct HostChanged {
  HostView view;  ///< without the routes, if they follow
  /// Built by the control thread, which destroys them as well; see link::HostRoutes.
  std::shared_ptr<link::HostRoutes> routes = {};
  TimePoint began{};  ///< when the control thread began to read it
};
/// To the control thread. The routes are not known: HostChanged shall follow, even if the host's
/// configuration is that of the last one.
struct RoutesWanted {};

}  // namespace ipoib::daemon
