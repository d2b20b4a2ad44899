// The states of a path, each with its own data; docs/states.md, "Path".
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/time.hpp"
#include "ipoib/ud_port.hpp"
#include "link/events.hpp"
#include "link/purpose.hpp"

namespace ipoib::link {

/// An address vector without the destination GID; small, since there are thousands.
struct PathAttributes {
  Lid dlid;
  ServiceLevel sl;
  std::uint8_t rate = 0;
  std::uint8_t source_path_bits = 0;
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 0;  ///< 0: no global route
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  friend bool operator==(const PathAttributes&, const PathAttributes&) = default;
};

/// A path as one daemon hands it over to the next.
struct SavedPath {
  PathAttributes attributes;
  std::uint32_t mtu = 0;  ///< of the InfiniBand payload, bytes
  friend bool operator==(const SavedPath&, const SavedPath&) = default;
};

/// In place of the packet lifetime of a path that another daemon has handed over.
inline constexpr std::uint8_t kUnknownLifetime = 0xff;

/// The part of the SA's record that is kept, and the address handle.
struct PathData {
  AddressHandlePtr handle;
  PathAttributes attributes;  ///< the handle was created from these
  std::uint16_t mtu = 0;      ///< of the InfiniBand payload, bytes
  std::uint8_t lifetime = kUnknownLifetime;
};

/// Waits for the response to a path request; its destructor takes it out of the list.
using PathWaiter =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class PathWaiterTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
using PathWaiters = boost::intrusive::list<PathWaiter, boost::intrusive::base_hook<PathWaiter>,
                                           boost::intrusive::constant_time_size<false>>;

/// The states as members of a base of Path, so that its methods can use their names unqualified.
/// `failures` counts the failed requests in a row.
struct PathStateTypes {
  struct Idle {};
  struct Waiting {
    unsigned failures = 0;
    Purpose purpose{};
    PathWaiters waiters{};
  };
  struct Requesting {
    unsigned failures = 0;
    PathWaiters waiters{};
    bool is_outdated = false;  ///< the port was reported meanwhile, so its response may be
  };
  struct Ready {
    PathData data;
    TimePoint refresh_at;
  };
  struct NeedsRefresh {
    PathData data;
    TimePoint not_before{};
    unsigned failures = 0;
  };
  struct Refreshing {
    PathData data;
    unsigned failures = 0;
    bool is_outdated = false;  ///< as in Requesting
  };
  struct Failed {
    TimePoint retry_at;
    TimePoint forget_at;  ///< later than retry_at, so that the next pause can be longer
    unsigned failures = 0;
  };
  using State = std::variant<Idle, Waiting, Requesting, Ready, NeedsRefresh, Refreshing, Failed>;
};

}  // namespace ipoib::link
