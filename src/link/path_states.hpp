// The states of a path, each with what only it owns; docs/states.md, "Path".
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/time.hpp"
#include "ipoib/ud_port.hpp"
#include "link/events.hpp"

namespace ipoib::link {

/// What an address vector says besides the GID; small, since there are many.
struct Way {
  Lid dlid;
  ServiceLevel sl;
  std::uint8_t rate = 0;
  std::uint8_t source_path_bits = 0;
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 0;  ///< 0: no global route
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  friend bool operator==(const Way&, const Way&) = default;
};

/// The way itself, as the SA gave it.
struct PathData {
  AddressHandlePtr handle;
  Way way;                ///< what the handle was made from
  std::uint32_t mtu = 0;  ///< of the InfiniBand payload, octets
};

/// Who waits for a path to be answered; leaves the list when it dies.
using PathWaiter =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class PathWaiterTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
using PathWaiters = boost::intrusive::list<PathWaiter, boost::intrusive::base_hook<PathWaiter>,
                                           boost::intrusive::constant_time_size<false>>;

namespace path_state {
struct Idle {};
struct Waiting {
  unsigned refusals = 0;
  PathWaiters waiters{};
};
struct Asking {
  wire::SaRequestId request;
  unsigned refusals = 0;
  PathWaiters waiters{};
};
struct Ready {
  PathData data;
  TimePoint refresh_at;
};
struct Suspect {
  PathData data;
  TimePoint not_before{};
  unsigned refusals = 0;
};
struct Refreshing {
  PathData data;
  wire::SaRequestId request;
  unsigned refusals = 0;
};
struct Failed {
  TimePoint silent_until;
  unsigned refusals = 0;
};
using State = std::variant<Idle, Waiting, Asking, Ready, Suspect, Refreshing, Failed>;
}  // namespace path_state

}  // namespace ipoib::link
