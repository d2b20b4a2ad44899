// Requests of the host's side for the hardware address of a neighbour, by ARP or Neighbour
// Discovery, that wait for the neighbour's response.
#pragma once

#include <chrono>
#include <vector>

#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/time.hpp"

namespace ipoib::ethernet {

/// Who has asked.
struct Asker {
  MacAddress mac;
  IpAddress address;  ///< unspecified in an ARP probe (RFC 5227, 2.1)
  friend bool operator==(const Asker&, const Asker&) = default;
};

class Requests {
 public:
  static constexpr std::size_t kMax = 256;
  /// As long as the link asks for an unknown neighbour (link::Ageing).
  static constexpr Duration kPatience = std::chrono::seconds(3);

  /// Returns false if too many wait. A repetition waits for longer.
  [[nodiscard]] bool add(const IpAddress& target, const Asker& asker, TimePoint now);
  /// Removes and returns those who have asked for `target`.
  [[nodiscard]] std::vector<Asker> take(const IpAddress& target);

 private:
  struct Waiting {
    IpAddress target;
    Asker asker;
    TimePoint until;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace ipoib::ethernet
