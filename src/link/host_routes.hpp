// The routes through the interface, the rules, and the redirects that the kernel follows: those of
// a HostView, and what the kernel has announced since.
//
// Rules are applied in their order (ip-rule(8)); a rule with conditions that a packet does not show
// is tried after all others. Tables without a rule come last: an interface in a VRF has one.
//
// With thousands of routes it takes milliseconds to build or to destroy this object, so the control
// thread does both; changes take a microsecond.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "ipoib/host_view.hpp"
#include "ipoib/keyed_hash.hpp"
#include "ipoib/route_changes.hpp"
#include "link/flow.hpp"
#include "link/route_tables.hpp"

namespace ipoib::link {

class HostRoutes {
 public:
  using Routes = RouteTables::Routes;

  /// The key is for tables of routes and redirects, whose prefixes other routers choose.
  HostRoutes(const HostView& view, const HashKey& key);

  /// Changes may be made again, if all later ones are as well.
  void apply(const RouteChange& change);

  // After changes, the first two of these may be true without need.
  [[nodiscard]] bool has_gateways() const { return has_gateways_; }
  /// Whether rules or routes depend on more than addresses.
  [[nodiscard]] bool needs_headers() const { return needs_headers_; }
  /// Gateways that another one may replace.
  [[nodiscard]] const std::set<IpAddress>& alternatives() const { return alternatives_; }

  /// The best routes of a flow; empty if none covers it.
  [[nodiscard]] Routes find(const Flow& flow) const;
  /// The gateway that a router has named; null if there is none.
  [[nodiscard]] const IpAddress* redirect_of(const IpAddress& destination) const;

 private:
  void on(const RouteAdded& change);
  void on(const RouteRemoved& change) { (void)tables_.remove(change); }
  void on(const RuleChanged& change);
  void on(const NextHopChanged& change);
  void on(const SourceRemoved& change) { tables_.remove_source(change.address); }
  void on(const RoutesCleared& /*change*/) { tables_.clear(); }
  void on(const RoutesUnknown& /*change*/) {}
  /// Takes note of what routes to one prefix need.
  void note(const std::vector<HostRoute>& routes);

  KeyedHash hash_;
  RouteTables tables_;
  std::vector<RoutingRule> rules_;
  std::unordered_map<IpAddress, IpAddress, KeyedHash> redirects_;  ///< destination to gateway
  std::set<IpAddress> alternatives_;
  bool has_gateways_ = false;
  bool needs_headers_ = false;
};

}  // namespace ipoib::link
