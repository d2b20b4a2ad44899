// Requests of the host's side for the hardware address of a neighbour, by ARP or Neighbour
// Discovery, that wait for the neighbour's response.
//
// Stations may ask for anything, under any MAC. So the host has a limit of its own, and so have the
// stations with an address; each limit is shared fairly by MAC. Stations also have a part of the
// rate at which the link solicits new neighbours.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "ipoib/fair_share.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/time.hpp"
#include "ipoib/token_bucket.hpp"

namespace ipoib::ethernet {

/// The askers who share a limit.
enum class AskerKind : std::uint8_t {
  host,
  station,   ///< one that has an address
  newcomer,  ///< one that has no address (yet)
  count_
};

/// Who has asked.
struct Asker {
  MacAddress mac;
  IpAddress address;  ///< unspecified in an ARP probe (RFC 5227, 2.1)
  friend bool operator==(const Asker&, const Asker&) = default;
};

class Requests {
 public:
  static constexpr std::size_t kMax = 512;  ///< of each kind; at most half of them of one asker
  // The stations' part of the solicitations of new neighbours, in per cent.
  static constexpr std::uint32_t kStationShare = 70;
  static constexpr std::uint32_t kNewcomerShare = 10;
  /// The time for which the link asks for an unknown neighbour (link::Ageing).
  static constexpr Duration kPatience = std::chrono::seconds(3);

  /// `solicitations` is the number of new neighbours that the link solicits per second.
  explicit Requests(std::uint32_t solicitations)
      : stations_(solicitations * kStationShare / 100),
        newcomers_(solicitations * kNewcomerShare / 100) {}

  /// Returns false if too many wait, or the asker has to wait before he may ask again. A repetition
  /// waits for longer.
  [[nodiscard]] bool add(const IpAddress& target, const Asker& asker, AskerKind kind,
                         TimePoint now);
  /// Removes and returns those who have asked for `target`.
  [[nodiscard]] std::vector<Asker> take(const IpAddress& target);

 private:
  struct Waiting {
    IpAddress target;
    Asker asker;
    TimePoint until;
  };
  struct Limited {
    std::vector<Waiting> waiting;
    FairShare<MacAddress> shares{kMax};
    template <class Predicate>
    void erase_if(Predicate is_obsolete);
  };
  [[nodiscard]] bool may_ask(AskerKind kind, TimePoint now);

  std::array<Limited, static_cast<std::size_t>(AskerKind::count_)> kinds_;
  TokenBucket stations_;
  TokenBucket newcomers_;
};

}  // namespace ipoib::ethernet
