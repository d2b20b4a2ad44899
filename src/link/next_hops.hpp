// The next hop of a packet from the host. A TUN device delivers the packet without the route that
// the kernel chose, so the choice is made again, from a copy of the kernel's routing tables.
//
// The copy has only the routes through the interface, since the kernel chose one of them. Rules are
// applied in their order (ip-rule(8)); a rule with conditions that a packet does not show is tried
// after all others. Tables without a rule come last: an interface in a VRF has one. If no route
// matches, the sender is bound to the interface; the kernel then takes any destination to be on the
// link, and so does this class.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ipoib/host_view.hpp"

namespace ipoib::link {

class NextHops {
 public:
  /// Takes rules and routes from the view.
  void update(const HostView& view);

  /// If false, each destination is its own next hop.
  [[nodiscard]] bool has_gateways() const { return has_gateways_; }
  /// The gateway, or the destination itself. If a route has several next hops, packets with the
  /// same two addresses always take the same one.
  [[nodiscard]] IpAddress find(const IpAddress& source, const IpAddress& destination);

 private:
  /// The routes of one table and family with one prefix length.
  struct PrefixLength {
    std::uint8_t bits = 0;
    std::unordered_map<IpAddress, HostRoute> routes;
  };
  struct Table {
    std::array<std::vector<PrefixLength>, 2> by_family;  ///< the longest prefixes first
  };
  /// Entries of the cache of results, a power of two.
  static constexpr std::size_t kCached = 1024;
  struct CachedHop {
    IpAddress source;
    IpAddress destination;
    IpAddress hop;
    bool is_set = false;
  };

  void add(Table& table, const HostRoute& route);
  /// The longest match with more than `ignored_bits` bits; null if there is none.
  [[nodiscard]] static const HostRoute* longest_match(const Table& table,
                                                      const IpAddress& destination,
                                                      std::optional<std::uint8_t> ignored_bits);
  [[nodiscard]] const HostRoute* find_route(const IpAddress& source,
                                            const IpAddress& destination) const;

  std::map<std::uint32_t, Table> tables_;
  std::vector<RoutingRule> rules_;
  bool has_gateways_ = false;
  std::vector<CachedHop> cache_;
};

}  // namespace ipoib::link
