// The MAC addresses under which the host's side sees the interface and the neighbours on the link.
//
// A neighbour's MAC is computed from its 20-byte address, so it is the same after a restart of the
// daemon, and the kernel's entries stay right. If two neighbours would have the same MAC, the later
// one gets another. All of them are locally administered, and begin with 06, so that most frames
// for neighbours can be told from those for others behind a bridge, also for neighbours from before
// a restart. Linux gives 06 to one in 64 stations, too.
#pragma once

#include <optional>

#include "ethernet/recent_map.hpp"
#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"

namespace ipoib::ethernet {

/// The MAC of the network interface: 02 and the low 40 bits of the port's GUID. Interfaces of other
/// partitions than the default one differ by their P_Key.
[[nodiscard]] MacAddress mac_of_interface(Guid port, PKey pkey);

class NeighbourMacs {
 public:
  /// The source of packets that no known neighbour has sent, such as those that a router forwards.
  static constexpr MacAddress kOfOthers{0x0600'0000'0000};
  [[nodiscard]] static constexpr bool may_be_of_link(MacAddress mac) {
    return mac.bytes()[0] == 0x06;
  }

  struct Neighbour {
    MacAddress mac;
    bool is_router = false;  ///< as it has advertised itself
  };

  /// Remembers at most `limit` addresses.
  NeighbourMacs(std::size_t limit, const HashKey& key)
      : by_address_(limit, key), by_mac_(limit, key) {}

  /// To call when a neighbour has this hardware address. Returns whether it had another one before.
  bool learn(const IpAddress& address, const HwAddress& hardware);
  /// To call when the host's side is about to see this neighbour, which need not be known. Returns
  /// its MAC. Nobody has the unspecified address, which an ARP probe comes from.
  MacAddress show(const IpAddress& address, const HwAddress& hardware);
  /// To call when the address is no longer that of a neighbour.
  void forget(const IpAddress& address);
  /// The neighbour with this address, or null; valid until the next call.
  [[nodiscard]] Neighbour* find(const IpAddress& address) { return by_address_.find(address); }
  /// An IP address of the neighbour with that MAC; null if it is unknown. Valid until the next
  /// call.
  [[nodiscard]] const IpAddress* address_of(MacAddress mac);
  /// Whether the host's side has seen the MAC as that of a neighbour, or it is kOfOthers. A frame
  /// that comes back from there with such a source has gone round a loop.
  [[nodiscard]] bool is_of_link(MacAddress mac) const {
    return may_be_of_link(mac) && (mac == kOfOthers || by_mac_.peek(mac) != nullptr);
  }
  /// Calls visit(address) for at most `limit` neighbours, those of the recently used half first.
  template <class Visit>
  void visit_recent(std::size_t limit, Visit visit) const {
    by_address_.visit_recent(limit, visit);
  }
  /// The MAC that a neighbour has or would get.
  [[nodiscard]] MacAddress mac_of(const HwAddress& hardware) const;

 private:
  struct Owner {
    HwAddress hardware;
    std::optional<IpAddress> address;  ///< the last one that was learnt
  };

  RecentMap<IpAddress, Neighbour> by_address_;
  RecentMap<MacAddress, Owner> by_mac_;
};

}  // namespace ipoib::ethernet
