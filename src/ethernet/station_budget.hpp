// The limits of what one station behind the TAP may cause on the fabric.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "ipoib/mac_address.hpp"
#include "ipoib/token_bucket.hpp"

namespace ipoib::ethernet {

using StationBudgetHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class StationBudget : public StationBudgetHook {
 public:
  // Rates per second; a quarter of each is available at once.
  static constexpr std::uint32_t kRequests = 200;     ///< ARP and ND requests, each a broadcast
  static constexpr std::uint32_t kBroadcasts = 1000;  ///< other broadcasts, and IGMP and MLD
  static constexpr std::uint32_t kClaims = 100;  ///< addresses that are new, or belong to others

  static constexpr std::uint32_t kGroups = 20;  ///< multicast groups that are new
  static constexpr std::uint32_t kGroupBurst = 64;

  // Rates of messages about frames to a MAC where the destination no longer is.
  static constexpr std::uint32_t kCorrections = 200;  ///< answers, or requests to a neighbour
  static constexpr std::uint32_t kGuesses = 10;       ///< of them, for unknown ones: broadcasts
  static constexpr std::uint32_t kArrivals = 4;       ///< announcements without an address, by RARP

  explicit StationBudget(MacAddress mac)
      : requests(kRequests),
        broadcasts(kBroadcasts),
        claims(kClaims),
        groups(kGroups, kGroupBurst),
        corrections(kCorrections),
        guesses(kGuesses),
        arrivals(kArrivals),
        mac_(mac) {}

  [[nodiscard]] const MacAddress& mac() const { return mac_; }

  TokenBucket requests;
  TokenBucket broadcasts;
  TokenBucket claims;
  TokenBucket groups;
  TokenBucket corrections;
  TokenBucket guesses;
  TokenBucket arrivals;
  std::size_t addresses = 0;  ///< that are known
  bool has_moved = false;     ///< an address of it is on the fabric; it has sent nothing since

 private:
  MacAddress mac_;
};

}  // namespace ipoib::ethernet
