// Events of the control protocol: what a client gets after it has subscribed, one line each.
//
//   -> {"op":"subscribe","topics":["neighbours","link"]}
//   <- {"ok":true}
//   <- {"event":"neighbour","change":"changed","why":"confirmed","entry":{"address":...}}
//   <- {"event":"lost","events":17}
//
// Until the client closes the connection it carries events only. Events beyond a client's queue are
// lost; their number follows when the queue is empty.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "control/values.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

/// The topics that a client subscribes to.
struct Topics {
  bool neighbours = false;
  bool link = false;
  bool groups = false;
  bool stations = false;
  bool stats = false;

  [[nodiscard]] bool any() const { return *this != Topics(); }
  Topics& operator|=(const Topics& other) {
    neighbours |= other.neighbours;
    link |= other.link;
    groups |= other.groups;
    stations |= other.stations;
    stats |= other.stats;
    return *this;
  }
  friend bool operator==(const Topics&, const Topics&) = default;
};
inline constexpr std::array<std::pair<std::string_view, bool Topics::*>, 5> kTopics{
    {{"neighbours", &Topics::neighbours},
     {"link", &Topics::link},
     {"groups", &Topics::groups},
     {"stations", &Topics::stations},
     {"stats", &Topics::stats}}};

/// A neighbour is new, has another state or address, or was deleted. The entry is as it is after
/// the change, and that of a deleted one as it was before.
struct NeighbourEvent {
  std::string change;  ///< "new", "changed" or "deleted"
  std::string why;
  Entry entry;
  friend bool operator==(const NeighbourEvent&, const NeighbourEvent&) = default;
};

/// The interface or its bring-up has changed.
struct LinkEvent {
  std::vector<std::string> changed;  ///< names of the InterfaceInfo fields that changed
  InterfaceInfo info;                ///< without groups
  friend bool operator==(const LinkEvent&, const LinkEvent&) = default;
};

/// The membership in a group has changed.
struct GroupEvent {
  std::string change;  ///< "joining", "joined", "failed" or "left"
  std::string why;
  Group group;
  friend bool operator==(const GroupEvent&, const GroupEvent&) = default;
};

/// An address of a station behind an Ethernet interface has changed.
struct StationEvent {
  std::string change;  ///< "appeared", "left", "moved", "moved_out" or "duplicate"
  std::string why;     ///< who else claims it; only of the last two kinds
  Station station;     ///< as it is after the change; its state is "gone" if there is no entry
  friend bool operator==(const StationEvent&, const StationEvent&) = default;
};

struct CounterDelta {
  Counter counter;
  std::int64_t delta = 0;  ///< since the last event, or since the subscription
  friend bool operator==(const CounterDelta&, const CounterDelta&) = default;
};
/// Counters that have changed, after each interval.
struct StatsEvent {
  std::chrono::milliseconds interval{};  ///< the time since the last one, measured
  std::vector<CounterDelta> counters;    ///< those that have changed
  friend bool operator==(const StatsEvent&, const StatsEvent&) = default;
};

/// Events are missing here.
struct LostEvent {
  std::uint64_t events = 0;
  friend bool operator==(const LostEvent&, const LostEvent&) = default;
};

/// Another daemon serves the interface from now on. This connection ends; the new daemon's sockets
/// are there soon.
struct TakeoverEvent {
  friend bool operator==(const TakeoverEvent&, const TakeoverEvent&) = default;
};

using Event = std::variant<NeighbourEvent, LinkEvent, GroupEvent, StationEvent, StatsEvent,
                           LostEvent, TakeoverEvent>;

/// Returns one line with its newline.
[[nodiscard]] std::string emit(const Event& event);
/// Parses a line without its newline. EPROTO if it is no valid event; EOPNOTSUPP if it is one of a
/// kind that is unknown here, which a client skips.
[[nodiscard]] Result<Event> parse_event(std::string_view line);

}  // namespace ipoib::control
