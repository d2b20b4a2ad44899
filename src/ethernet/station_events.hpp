// Events of the addresses of stations, for the link, the stations and the log.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/token_bucket.hpp"

namespace ipoib::ethernet {

/// Who claims an address of a station: another one, or a host of the fabric.
using StationRival = std::variant<MacAddress, HwAddress>;

/// A change of an address, for log and monitor.
struct StationEvent {
  enum class Kind : std::uint8_t {
    appeared,   ///< the address is served from now on
    left,       ///< the station no longer answers
    moved,      ///< another station has it now
    moved_out,  ///< a host of the fabric has it now
    duplicate,  ///< two stations have it, or a station and a host of the fabric
  };
  Kind kind = Kind::appeared;
  IpAddress address;
  MacAddress mac;                       ///< of the station that has or had it
  std::optional<StationRival> rival{};  ///< who claims it; of `duplicate` and `moved_out`
};
/// Groups of a station that were left out, for the log.
struct GroupsLeftOut {
  MacAddress station;
  std::size_t count = 0;
};

inline constexpr std::size_t kStationEvents = 5;
[[nodiscard]] const char* name(StationEvent::Kind kind);

/// Requests and events that stations cause; the view takes them out.
struct StationOutput {
  struct Probe {
    IpAddress address;
    MacAddress mac;
  };
  struct Service {
    IpAddress address;
    bool is_router = false;
    bool on = true;
  };
  std::vector<Probe> probes;        ///< requests to stations
  std::vector<IpAddress> checks;    ///< requests to the fabric
  std::vector<IpAddress> searches;  ///< requests to all hosts for an address that is served
  std::vector<Service> services;
  std::vector<StationEvent> events;
  std::array<std::uint64_t, kStationEvents> event_counts{};  ///< of all events so far, by kind

  /// Rates of all stations per second; a quarter of each is available at once.
  struct Limits {
    static constexpr std::uint32_t kProbes = 1000;   ///< to those that packets have come for
    static constexpr std::uint32_t kSearches = 100;  ///< each a broadcast on the fabric
    TokenBucket probes{kProbes};
    TokenBucket searches{kSearches};
  } limits;
};

}  // namespace ipoib::ethernet
