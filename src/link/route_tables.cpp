#include "link/route_tables.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

namespace ipoib::link {
namespace {

constexpr std::uint8_t kTrafficClass = 0xfc;  // DSCP, without the bits of ECN (RFC 3168)

std::size_t family_of(const IpPrefix& prefix) {
  return static_cast<std::size_t>(family(prefix.address));
}

RouteTables::Key key_of(std::uint32_t table, const HostRoute& route) {
  const auto [address, bits] = route.destination;
  return {table, {IpPrefix::network(address, bits), bits}};
}

bool is_alike(const HostRoute& a, const HostRoute& b) {
  return a.tos == b.tos && a.metric == b.metric;
}

bool has_gateway(const HostRoute& route) {
  return std::ranges::any_of(route.hops, [](const RouteHop& hop) { return !!hop.gateway; });
}

bool have_same_hops(const HostRoute& a, const HostRoute& b) {
  if (a.nexthop != 0 || b.nexthop != 0) return a.nexthop == b.nexthop;
  return std::ranges::equal(a.hops, b.hops, {}, &RouteHop::gateway, &RouteHop::gateway);
}

}  // namespace

void RouteTables::clear() {
  tables_.clear();
  users_.clear();
  count_ = {};
}

/// Takes over the routes of a view, whose next hops are those of their objects.
void RouteTables::update(const HostView& view) {
  clear();
  objects_.clear();
  for (const NextHopObject& object : view.nexthops) objects_.insert_or_assign(object.id, object);
  for (const RoutingTable& table : view.tables) {
    for (const HostRoute& route : table.routes) {
      const Key key = key_of(table.id, route);
      if (route.nexthop != 0) users_[route.nexthop].insert(key);
      insert(route, key, RouteAdded::Position::last);
    }
  }
}

// --- Changes -------------------------------------------------------------------------------------

/// Adds a route. With IPv6, a notification has all next hops of a route to which one was added.
RouteTables::Key RouteTables::add(const RouteAdded& change) {
  HostRoute route = change.route;
  const Key key = key_of(change.table, route);
  const bool is_ipv6 = family(key.prefix.address) == IpFamily::v6;
  use_object(route, key);
  auto where = change.position;
  if (where == RouteAdded::Position::instead && !is_ipv6) {
    // The new route takes the place of the first one, which has that of the route to replace.
    if (auto* const routes = find(key)) {
      const auto old = std::ranges::find_if(
          *routes, [&](const HostRoute& other) { return is_alike(other, route); });
      if (old != routes->end()) {
        routes->erase(old);
        --count_[family_of(key.prefix)];
        where = RouteAdded::Position::first;
      }
    }
  }
  // IPv6 replaces one with a gateway by one with a gateway, if there is one, and the same without.
  const auto is_of_kind = [&](const HostRoute& other) {
    return is_alike(other, route) && has_gateway(other) == has_gateway(route);
  };
  const bool has_kind = !route.hops.empty() && std::ranges::any_of(at(key), is_of_kind);
  remove_at(key, [&](const HostRoute& other) {
    if (!is_alike(other, route)) return false;
    if (have_same_hops(other, route)) return true;
    if (!is_ipv6) return false;
    if (where == RouteAdded::Position::instead) return !has_kind || is_of_kind(other);
    return has_gateway(other) && has_gateway(route);
  });
  if (!route.hops.empty() || route.nexthop != 0) insert(std::move(route), key, where);
  return key;
}

/// Removes a route. With IPv6, a single next hop of a route may be removed.
RouteTables::Key RouteTables::remove(const RouteRemoved& change) {
  const HostRoute& gone = change.route;
  const Key key = key_of(change.table, gone);
  const bool is_ipv6 = family(key.prefix.address) == IpFamily::v6;
  auto* const routes = find(key);
  if (routes == nullptr) return key;
  if (is_ipv6 && gone.nexthop == 0) {
    for (HostRoute& route : *routes) {
      if (!is_alike(route, gone) || route.nexthop != 0) continue;
      std::erase_if(route.hops, [&](const RouteHop& hop) {
        return std::ranges::find(gone.hops, hop.gateway, &RouteHop::gateway) != gone.hops.end();
      });
    }
    remove_at(key, [](const HostRoute& route) { return route.hops.empty() && route.nexthop == 0; });
    return key;
  }
  if (gone.hops.empty() && gone.nexthop == 0) return key;
  bool is_found = false;
  remove_at(key, [&](const HostRoute& route) {
    if (is_found || !is_alike(route, gone) || !have_same_hops(route, gone)) return false;
    is_found = true;
    return true;
  });
  return key;
}

std::vector<RouteTables::Key> RouteTables::change(const NextHopChanged& change) {
  const std::uint32_t id = change.object.id;
  std::vector<std::uint32_t> changed{id};
  std::vector<Key> keys;
  if (change.is_there) {
    objects_.insert_or_assign(id, change.object);
  } else {
    objects_.erase(id);
  }
  for (const auto& [group, object] : objects_) {
    const bool has_it =
        std::ranges::find(object.members, id, &NextHopObject::Member::id) != object.members.end();
    if (has_it) changed.push_back(group);
  }
  for (const std::uint32_t each : changed) {
    const auto users = users_.find(each);
    if (users == users_.end()) continue;
    const auto object = objects_.find(each);
    for (const Key& key : users->second) {
      keys.push_back(key);
      if (object == objects_.end()) {
        remove_at(key, [each](const HostRoute& route) { return route.nexthop == each; });
        continue;
      }
      auto* const routes = find(key);
      if (routes == nullptr) continue;
      for (HostRoute& route : *routes) {
        if (route.nexthop == each) route.hops = hops_of(object->second);
      }
    }
    if (object == objects_.end()) users_.erase(users);
  }
  return keys;
}

void RouteTables::remove_source(const IpAddress& address) {
  std::vector<Key> keys;
  for (const auto& [id, table] : tables_) {
    for (const auto& lengths : table) {
      for (const PrefixLength& length : lengths) {
        for (const auto& [prefix, routes] : length.routes) {
          const bool concerned =
              std::ranges::find(routes, std::optional(address), &HostRoute::source) != routes.end();
          if (concerned) keys.push_back({id, {prefix, length.bits}});
        }
      }
    }
  }
  for (const Key& key : keys) {
    remove_at(key, [&](const HostRoute& route) { return route.source == address; });
  }
}

/// Inserts a route. As in the kernel, routes with a TOS come first, then the lowest metric.
void RouteTables::insert(HostRoute route, const Key& key, RouteAdded::Position where) {
  auto& count = count_[family_of(key.prefix)];
  if (count >= HostView::kMaxRoutes) return erase_if_empty(key);
  auto& routes = routes_at(key);
  const auto later = [&](const HostRoute& other) {
    if (other.tos != route.tos) return other.tos < route.tos;
    if (other.metric != route.metric) return other.metric > route.metric;
    return where == RouteAdded::Position::first;
  };
  routes.insert(std::ranges::find_if(routes, later), std::move(route));
  ++count;
}

/// Gives a route the next hops of the object that it uses, if that is known.
void RouteTables::use_object(HostRoute& route, const Key& key) {
  if (route.nexthop == 0) return;
  users_[route.nexthop].insert(key);
  const auto object = objects_.find(route.nexthop);
  if (object != objects_.end()) route.hops = hops_of(object->second);
}

std::vector<RouteHop> RouteTables::hops_of(const NextHopObject& object) const {
  if (object.hop) return {*object.hop};
  std::vector<RouteHop> hops;
  for (const auto& [id, weight] : object.members) {
    const auto member = objects_.find(id);
    if (member == objects_.end() || !member->second.hop) continue;
    hops.push_back({member->second.hop->gateway, weight});
  }
  return hops;
}

template <class Condition>
void RouteTables::remove_at(const Key& key, Condition&& condition) {
  auto* const routes = find(key);
  if (routes == nullptr) return;
  count_[family_of(key.prefix)] -= std::erase_if(*routes, condition);
  erase_if_empty(key);
}

// --- Look-up -------------------------------------------------------------------------------------

std::vector<HostRoute>* RouteTables::find(const Key& key) {
  const auto table = tables_.find(key.table);
  if (table == tables_.end()) return nullptr;
  auto& lengths = table->second[family_of(key.prefix)];
  const auto length = std::ranges::find(lengths, key.prefix.length, &PrefixLength::bits);
  if (length == lengths.end()) return nullptr;
  const auto at = length->routes.find(key.prefix.address);
  return at == length->routes.end() ? nullptr : &at->second;
}

const std::vector<HostRoute>& RouteTables::at(const Key& key) const {
  static const std::vector<HostRoute> kNone;
  const auto* const found = const_cast<RouteTables*>(this)->find(key);
  return found == nullptr ? kNone : *found;
}

std::vector<HostRoute>& RouteTables::routes_at(const Key& key) {
  auto& lengths = tables_[key.table][family_of(key.prefix)];
  auto at = std::ranges::find_if(
      lengths, [&](const PrefixLength& length) { return length.bits <= key.prefix.length; });
  if (at == lengths.end() || at->bits != key.prefix.length) {
    at = lengths.insert(at, PrefixLength{key.prefix.length, RoutesByPrefix(0, hash_)});
  }
  return at->routes[key.prefix.address];
}

void RouteTables::erase_if_empty(const Key& key) {
  const auto* const routes = find(key);
  if (routes == nullptr || !routes->empty()) return;
  auto& lengths = tables_[key.table][family_of(key.prefix)];
  const auto length = std::ranges::find(lengths, key.prefix.length, &PrefixLength::bits);
  length->routes.erase(key.prefix.address);
  if (length->routes.empty()) lengths.erase(length);
}

std::vector<std::uint32_t> RouteTables::ids() const {
  const auto ids = std::views::keys(tables_);
  return {ids.begin(), ids.end()};
}

RouteTables::Routes RouteTables::longest_match(std::uint32_t table, const Flow& flow,
                                               std::optional<std::uint8_t> ignored_bits) const {
  const IpAddress& destination = flow.destination;
  const auto found = tables_.find(table);
  if (found == tables_.end()) return {};
  for (const PrefixLength& length : found->second[static_cast<std::size_t>(family(destination))]) {
    if (ignored_bits && length.bits <= *ignored_bits) break;
    const auto at = length.routes.find(IpPrefix::network(destination, length.bits));
    if (at == length.routes.end()) continue;
    Routes best;
    for (const HostRoute& route : at->second) {
      if (route.hops.empty()) continue;
      if (route.tos != 0 && (route.tos & kTrafficClass) != (flow.tos & kTrafficClass)) continue;
      const bool is_equal =
          best.empty() || (best.front()->tos == route.tos && best.front()->metric == route.metric);
      if (!is_equal) break;
      best.push_back(&route);
    }
    if (!best.empty()) return best;
  }
  return {};
}

}  // namespace ipoib::link
