#include "link/next_hops.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace ipoib::link {
namespace {

std::size_t hash_of(const IpAddress& source, const IpAddress& destination) {
  const std::hash<IpAddress> hash;
  return hash(source) * 31 + hash(destination);
}

/// Selects a next hop by weight; always the same one for the same hash.
const RouteHop& select_hop(const HostRoute& route, std::size_t hash) {
  if (route.hops.size() == 1) return route.hops.front();
  const std::size_t all =
      std::accumulate(route.hops.begin(), route.hops.end(), std::size_t{0},
                      [](std::size_t sum, const RouteHop& hop) { return sum + hop.weight; });
  // Not the low bits, which select the cache entry.
  std::size_t at = (hash >> 16) % std::max<std::size_t>(all, 1);
  for (const RouteHop& hop : route.hops) {
    if (at < hop.weight) return hop;
    at -= hop.weight;
  }
  return route.hops.back();
}

bool matches(const RoutingRule& rule, const IpAddress& source, const IpAddress& destination) {
  return rule.family == family(destination) && (!rule.source || rule.source->contains(source)) &&
         (!rule.destination || rule.destination->contains(destination));
}

}  // namespace

void NextHops::update(const HostView& view) {
  tables_.clear();
  has_gateways_ = false;
  rules_ = view.rules;
  for (const RoutingTable& table : view.tables) {
    Table& copy = tables_[table.id];
    for (const HostRoute& route : table.routes) add(copy, route);
    for (auto& lengths : copy.by_family) {
      std::ranges::sort(lengths, std::ranges::greater{}, &PrefixLength::bits);
    }
  }
  cache_.assign(has_gateways_ ? kCached : 0, CachedHop{});
}

void NextHops::add(Table& table, const HostRoute& route) {
  has_gateways_ |=
      std::ranges::any_of(route.hops, [](const RouteHop& hop) { return hop.gateway.has_value(); });
  const auto [address, bits] = route.destination;
  auto& lengths = table.by_family[static_cast<std::size_t>(family(address))];
  auto at = std::ranges::find(lengths, bits, &PrefixLength::bits);
  if (at == lengths.end()) at = lengths.insert(lengths.end(), PrefixLength{bits, {}});
  const auto [entry, is_new] = at->routes.try_emplace(IpPrefix::network(address, bits), route);
  if (!is_new && route.metric < entry->second.metric) entry->second = route;
}

IpAddress NextHops::find(const IpAddress& source, const IpAddress& destination) {
  if (!has_gateways_) return destination;
  const std::size_t hash = hash_of(source, destination);
  CachedHop& cached = cache_[hash % kCached];
  if (cached.is_set && cached.destination == destination && cached.source == source) {
    return cached.hop;
  }
  const HostRoute* const route = find_route(source, destination);
  const IpAddress hop =
      route == nullptr ? destination : select_hop(*route, hash).gateway.value_or(destination);
  cached = CachedHop{source, destination, hop, true};
  return hop;
}

const HostRoute* NextHops::find_route(const IpAddress& source, const IpAddress& destination) const {
  for (const bool certain : {true, false}) {
    for (const RoutingRule& rule : rules_) {
      if (rule.is_certain != certain || !matches(rule, source, destination)) continue;
      const auto table = tables_.find(rule.table);
      if (table == tables_.end()) continue;
      if (const auto* const route = longest_match(table->second, destination, rule.ignored_bits)) {
        return route;
      }
    }
  }
  for (const auto& [id, table] : tables_) {
    if (const HostRoute* const route = longest_match(table, destination, std::nullopt))
      return route;
  }
  return nullptr;
}

const HostRoute* NextHops::longest_match(const Table& table, const IpAddress& destination,
                                         std::optional<std::uint8_t> ignored_bits) {
  for (const PrefixLength& length :
       table.by_family[static_cast<std::size_t>(family(destination))]) {
    if (ignored_bits && length.bits <= *ignored_bits) break;
    const auto at = length.routes.find(IpPrefix::network(destination, length.bits));
    if (at != length.routes.end()) return &at->second;
  }
  return nullptr;
}

}  // namespace ipoib::link
