// Output of a link: lists that its objects append to and its owner drains.
#pragma once

#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/ud_port.hpp"
#include "link/changes.hpp"
#include "link/counters.hpp"
#include "link/events.hpp"

namespace ipoib::link {

/// The least headroom before a packet for the host, in bytes: for the header of another link layer.
inline constexpr std::size_t kHostHeadroom = 16;

/// A hardware address that a neighbour has said to have, or that the operator has set.
struct KnownNeighbour {
  IpAddress address;
  HwAddress hardware;
  bool is_permanent = false;  ///< by the operator
  friend bool operator==(const KnownNeighbour&, const KnownNeighbour&) = default;
};

struct Output {
  std::vector<Outgoing> sends;
  std::vector<Frame> to_host;
  std::vector<Event> events;
  std::vector<KnownNeighbour> known_neighbours;  ///< empty unless Config::reports_neighbours
  std::vector<wire::Arp> station_requests;       ///< empty unless Config::serves_stations
  Counters counters;
  Changes changes;
};

/// Numbers the SA requests of one link.
class RequestIds {
 public:
  explicit RequestIds(wire::SaRequestId first = wire::SaRequestId(1)) : next_(first.value()) {}
  [[nodiscard]] wire::SaRequestId next() { return wire::SaRequestId(next_++); }

 private:
  wire::SaRequestId::Representation next_;
};

}  // namespace ipoib::link
