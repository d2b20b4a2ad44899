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
  struct Key {
    std::uint32_t table = 0;
    IpPrefix prefix;  ///< the other bits are zero
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  /// The key is for tables of routes, whose prefixes other routers choose.
  explicit RouteTables(const HashKey& key) : hash_(key) {}

  void update(const HostView& view);
  void clear();
  // These methods return the keys whose routes have changed.
  Key add(const RouteAdded& change);
  Key remove(const RouteRemoved& change);
  std::vector<Key> change(const NextHopChanged& change);
  /// Removes the routes that have this source.
  void remove_source(const IpAddress& address);

  /// The tables with routes, in the order of their ids.
  [[nodiscard]] std::vector<std::uint32_t> ids() const;
  /// The routes of the longest match that has some for this TOS, with more than `ignored_bits`
  /// bits; empty if there are none.
  [[nodiscard]] Routes longest_match(std::uint32_t table, const Flow& flow,
                                     std::optional<std::uint8_t> ignored_bits) const;
  /// The routes of a key, in the order in which the kernel tries them.
  [[nodiscard]] const std::vector<HostRoute>& at(const Key& key) const;
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

  [[nodiscard]] std::vector<HostRoute>* find(const Key& key);
  [[nodiscard]] std::vector<HostRoute>& routes_at(const Key& key);
  void erase_if_empty(const Key& key);
  /// Removes routes of one key that satisfy the condition, and the key if it has none then.
  template <class Condition>
  void remove_at(const Key& key, Condition&& condition);
  void insert(HostRoute route, const Key& key, RouteAdded::Position where);
  [[nodiscard]] std::vector<RouteHop> hops_of(const NextHopObject& object) const;
  void use_object(HostRoute& route, const Key& key);

  KeyedHash hash_;
  std::map<std::uint32_t, Table> tables_;
  std::array<std::size_t, 2> count_{};  ///< routes by family
  std::unordered_map<std::uint32_t, NextHopObject> objects_;
  std::unordered_map<std::uint32_t, std::set<Key>> users_;  ///< of objects
};

}  // namespace ipoib::link
