// The next hop of a packet from the host. A TUN device delivers the packet without the route that
// the kernel chose, so the choice is made again, from a copy of the kernel's routing tables.
//
// The copy has only the routes through the interface, since the kernel chose one of them (see
// HostRoutes). The owner decides what to do with a packet that no route covers: see Transmitter.
//
// The kernel does not know which gateways respond, since a TUN has no neighbours. So if several
// routes or next hops are equal, one that responds is preferred (RFC 4861, 6.3.6).
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "ipoib/host_view.hpp"
#include "ipoib/keyed_hash.hpp"
#include "ipoib/route_changes.hpp"
#include "link/flow.hpp"
#include "link/host_routes.hpp"

namespace ipoib::link {

/// Interface: what is known about neighbours as gateways.
class Reachability {
 public:
  enum class Level : std::uint8_t { resolved, unknown, failed };
  virtual ~Reachability() = default;
  [[nodiscard]] virtual Level level_of(const IpAddress& neighbour) const = 0;
  /// Names the gateways that another one can replace. They stay failed until they respond.
  virtual void watch(std::set<IpAddress> gateways) = 0;
  /// Counts changes of level_of() for any watched gateway.
  [[nodiscard]] virtual std::uint64_t level_changes() const = 0;
};

class NextHops {
 public:
  /// `reachability` outlives it. The key is for HostRoutes.
  NextHops(Reachability& reachability, const HashKey& key);

  void update(const HostView& view);
  /// Takes the routes of a view. All who share them get the same changes.
  void update(std::shared_ptr<HostRoutes> routes);
  /// Applies a change since the last update().
  void apply(const RouteChange& change);

  /// Whether there are gateways. If not, each destination is its own next hop.
  [[nodiscard]] bool has_gateways() const { return routes_->has_gateways(); }
  /// Whether rules or routes depend on more than addresses.
  [[nodiscard]] bool needs_headers() const { return routes_->needs_headers(); }
  /// The gateway, or the destination itself, also if no route covers it. If a route has several
  /// next hops, packets of the same flow always take the same one while it responds.
  [[nodiscard]] IpAddress find(const Flow& flow);
  /// Whether a route or redirect says how to reach the destination.
  [[nodiscard]] bool covers(const Flow& flow) const;

 private:
  /// Entries of the cache of results, a power of two. A flow has one entry, so whoever chooses
  /// flows that share one only causes a route look-up for each packet.
  static constexpr std::size_t kCached = 1024;
  struct CachedHop {
    Flow flow;
    IpAddress hop;
    std::uint64_t level_changes = 0;
    std::uint64_t version = 0;  ///< of the routes; 0: none
  };

  [[nodiscard]] const RouteHop* select(const HostRoutes::Routes& routes, std::size_t hash) const;
  [[nodiscard]] Reachability::Level level_of(const RouteHop& hop) const;

  Reachability& reachability_;
  HashKey key_;
  std::shared_ptr<HostRoutes> routes_;
  std::size_t watched_ = 0;    ///< alternatives, whose number only grows
  std::uint64_t version_ = 1;  ///< counts changes
  std::vector<CachedHop> cache_;
};

}  // namespace ipoib::link
