// The states of a neighbour entry, each with what only it owns; docs/states.md, "Neighbour".
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
}

namespace ipoib::link::neighbour_state {

/// A hardware address, whose GID is that of the path, which is always there.
struct Route {
  Route(const HwAddress& hardware, PathRef&& to)
      : path(std::move(to)), qpn(hardware.qpn), flags(hardware.flags) {}
  [[nodiscard]] HwAddress hardware() const { return {flags, qpn, path->gid()}; }
  [[nodiscard]] bool leads_to(const HwAddress& other) const {
    return hardware().same_endpoint(other);
  }

  PathRef path;
  Qpn qpn;
  std::uint8_t flags;
};

/// An entry that waits for its path to be answered, and with what. Few do at a time.
struct Wait : PathWaiter {
  Wait(Neighbour& waiting, ParkedFrames&& frames, bool is_confirmed = false)
      : entry(waiting), parked(std::move(frames)), confirmed(is_confirmed) {}
  Neighbour& entry;
  ParkedFrames parked;
  bool confirmed;
};

struct New {};
struct Incomplete {
  std::unique_ptr<ParkedFrames> parked;
  TimePoint deadline;
  std::uint8_t requests = 0;  ///< 0: the first one's turn comes at the deadline
};
struct Resolving {
  Route route;
  std::unique_ptr<Wait> wait;
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
  std::unique_ptr<Wait> wait;  ///< null while it does not
};

using State =
    std::variant<New, Incomplete, Resolving, Reachable, Stale, Delay, Probing, Failed, Permanent>;

}  // namespace ipoib::link::neighbour_state
