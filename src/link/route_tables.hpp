// A copy of the kernel's routing tables, with the routes through the interface, which follows the
// changes that the kernel announces.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "ipoib/host_view.hpp"
#include "ipoib/keyed_hash.hpp"
#include "ipoib/route_changes.hpp"
#include "link/flow.hpp"

namespace ipoib::link {

class RouteTables {
 public:
  using Routes = std::vector<const HostRoute*>;  ///< equally good ones
  /// The routes of one table to one prefix.
  struct Place {
    std::uint32_t table = 0;
    IpPrefix prefix;  ///< the other bits are zero
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  /// The key is for tables of routes, whose prefixes other routers choose.
  explicit RouteTables(const HashKey& key) : hash_(key) {}

  void update(const HostView& view);
  void clear();
  // These methods return where routes have changed.
  Place add(const RouteAdded& change);
  Place remove(const RouteRemoved& change);
  std::vector<Place> change(const NextHopChanged& change);
  /// Removes the routes that have this source.
  void remove_source(const IpAddress& address);

  /// The tables with routes, in the order of their ids.
  [[nodiscard]] std::vector<std::uint32_t> ids() const;
  /// The routes of the longest match that has some for this TOS, with more than `ignored_bits`
  /// bits; empty if there are none.
  [[nodiscard]] Routes longest_match(std::uint32_t table, const Flow& flow,
                                     std::optional<std::uint8_t> ignored_bits) const;
  /// The routes at a place, in the order in which the kernel tries them.
  [[nodiscard]] const std::vector<HostRoute>& at(const Place& place) const;
  /// Calls `visit` with the routes to each prefix.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [id, table] : tables_) {
      for (const auto& lengths : table) {
        for (const PrefixLength& length : lengths) {
          for (const auto& [prefix, routes] : length.routes) visit(routes);
        }
      }
    }
  }

 private:
  using RoutesByPrefix = std::unordered_map<IpAddress, std::vector<HostRoute>, KeyedHash>;
  /// The routes of one table and family with one prefix length.
  struct PrefixLength {
    std::uint8_t bits = 0;
    RoutesByPrefix routes;
  };
  using Table = std::array<std::vector<PrefixLength>, 2>;  ///< by family; longest prefixes first

  [[nodiscard]] std::vector<HostRoute>* find(const Place& place);
  [[nodiscard]] std::vector<HostRoute>& routes_at(const Place& place);
  void erase_if_empty(const Place& place);
  /// Removes routes from one place that satisfy the condition, and the place if it is empty then.
  template <class Condition>
  void remove_at(const Place& place, Condition&& condition);
  void insert(HostRoute route, const Place& place, RouteAdded::Place where);
  [[nodiscard]] std::vector<RouteHop> hops_of(const NextHopObject& object) const;
  void use_object(HostRoute& route, const Place& place);

  KeyedHash hash_;
  std::map<std::uint32_t, Table> tables_;
  std::array<std::size_t, 2> count_{};  ///< routes by family
  std::unordered_map<std::uint32_t, NextHopObject> objects_;
  std::unordered_map<std::uint32_t, std::set<Place>> users_;  ///< of objects
};

}  // namespace ipoib::link
