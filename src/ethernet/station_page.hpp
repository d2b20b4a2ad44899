// Addresses of stations as values: a page, as the control protocol lists them, and what a daemon
// hands over.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ethernet/station_address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/time.hpp"

namespace ipoib::ethernet {

struct StationInfo {
  IpAddress address;
  MacAddress mac;
  StationState state = StationState::unconfirmed;
  Duration idle{};  ///< since its last frame
};

/// An address that is served, for the next daemon of the interface.
struct SavedStation {
  IpAddress address;
  MacAddress mac;
  bool is_router = false;
  Duration idle{};  ///< since its last frame
  friend bool operator==(const SavedStation&, const SavedStation&) = default;
};

/// A group that stations listen to, and the one that is charged for it.
struct SavedGroup {
  IpAddress group;
  MacAddress station;
  friend bool operator==(const SavedGroup&, const SavedGroup&) = default;
};

struct StationPage {
  std::vector<StationInfo> stations;
  std::optional<std::uint32_t> next;
};

}  // namespace ipoib::ethernet
