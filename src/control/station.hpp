// Values of the control protocol about stations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/time.hpp"

namespace ipoib::control {

/// An IP address of a station behind an Ethernet interface.
struct Station {
  IpAddress address;
  MacAddress mac;
  std::string state;    ///< as in docs/states.md: "reachable", ...
  bool served = false;  ///< the interface answers for it
  Duration idle{};      ///< since its last frame
  friend bool operator==(const Station&, const Station&) = default;
};

/// A page of stations, unordered.
struct StationPage {
  std::vector<Station> stations;
  std::optional<std::uint64_t> next;  ///< cursor of the next page; none after the last page
  friend bool operator==(const StationPage&, const StationPage&) = default;
};

}  // namespace ipoib::control
