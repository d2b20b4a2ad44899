// A page of addresses of stations, as the control protocol lists them.
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

struct StationPage {
  std::vector<StationInfo> stations;
  std::optional<std::uint32_t> next;
};

}  // namespace ipoib::ethernet
