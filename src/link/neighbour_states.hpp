// The states of a neighbour entry, each with its own data; docs/states.md, "Neighbour".
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/time.hpp"
#include "link/parked_frames.hpp"
#include "link/path_ref.hpp"

namespace ipoib::link {

class Neighbour;

/// A hardware address with a reference to the path of its GID.
struct Route {
  Route(const HwAddress& hardware, PathRef&& to)
      : path(std::move(to)), qpn(hardware.qpn), flags(hardware.flags) {}
  [[nodiscard]] HwAddress hardware() const { return {flags, qpn, path->gid()}; }
  [[nodiscard]] bool leads_to(const HwAddress& other) const {
    return hardware().same_endpoint(other);
  }

  PathRef path;  ///< never null
  Qpn qpn;
  std::uint8_t flags;
};

/// Registers an entry with a pending path, and holds the frames that wait for it. Allocated only
/// while an entry waits, so that an entry stays small.
struct WaitForPath : PathWaiter {
  WaitForPath(Neighbour& waiting, ParkedFrames&& frames, bool is_confirmed = false)
      : entry(waiting), parked(std::move(frames)), confirmed(is_confirmed) {}
  Neighbour& entry;
  ParkedFrames parked;
  bool confirmed;
};

/// The states as members of a base of Neighbour, so that its methods can use their names
/// unqualified.
struct NeighbourStateTypes {
  /// Base of the states in which the path can be used.
  struct Routed {
    Route route;
    TimePoint deadline;
  };

  struct New {};
  struct Incomplete {
    std::unique_ptr<ParkedFrames> parked;
    TimePoint deadline;
    std::uint8_t requests = 0;  ///< 0 while the rate limit defers the first one to the deadline
  };
  struct Resolving {
    Route route;
    std::unique_ptr<WaitForPath> wait;
  };
  struct Reachable : Routed {};
  struct Stale : Routed {};
  struct Delay : Routed {};
  struct Probing : Routed {
    std::uint8_t probes = 0;  ///< sent, unicast and broadcast
  };
  struct Failed {
    TimePoint deadline;
  };
  struct Permanent {
    Route route;
    std::unique_ptr<WaitForPath> wait;  ///< null unless a frame waits for the path
  };

  using State =
      std::variant<New, Incomplete, Resolving, Reachable, Stale, Delay, Probing, Failed, Permanent>;
};

}  // namespace ipoib::link
