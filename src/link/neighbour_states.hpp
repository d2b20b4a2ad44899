// The states of a neighbour entry, each with what only it owns; docs/states.md, "Neighbour".
#pragma once

#include <cstdint>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/time.hpp"
#include "link/parked_frames.hpp"
#include "link/path_ref.hpp"

namespace ipoib::link::neighbour_state {

/// A hardware address and the path of its GID.
struct Route {
  HwAddress hardware;
  PathRef path;
};

struct New {};
struct Incomplete {
  ParkedFrames parked;
  TimePoint deadline;
  std::uint8_t requests = 0;  ///< 0: the first one's turn comes at the deadline
};
struct Resolving {
  Route route;
  ParkedFrames parked;
  bool confirmed = false;
};
struct Reachable {
  Route route;
  TimePoint deadline;
};
struct Stale {
  Route route;
  TimePoint deadline;
};
struct Delay {
  Route route;
  TimePoint deadline;
};
struct Probing {
  Route route;
  TimePoint deadline;
  std::uint8_t probes = 0;  ///< sent, unicast and broadcast
};
struct Failed {
  TimePoint deadline;
};
struct Permanent {
  Route route;
  ParkedFrames parked;
};

using State =
    std::variant<New, Incomplete, Resolving, Reachable, Stale, Delay, Probing, Failed, Permanent>;

}  // namespace ipoib::link::neighbour_state
