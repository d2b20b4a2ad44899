#include "link/next_hops.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace ipoib::link {
namespace {

constexpr std::uint8_t kDscp = 0xfc;  // without the bits of ECN (RFC 3168)

std::size_t hash_of(const Flow& flow) {
  const std::hash<IpAddress> hash;
  const std::size_t ports = std::size_t{flow.source_port} << 16 | flow.destination_port;
  return (hash(flow.source) * 31 + hash(flow.destination)) ^
         (ports * 31 + flow.protocol) * 0x9e3779b97f4a7c15ULL;
}

bool contains(const std::optional<PortRange>& range, std::uint16_t port) {
  return !range || (port >= range->first && port <= range->last);
}

enum class Match { no, yes, unknown };

/// Of the condition "iif".
Match matches_input(RoutingRule::Input input, const Flow& flow) {
  if (input == RoutingRule::Input::any) return Match::yes;
  if (!flow.is_of_host) return Match::unknown;
  if (input == RoutingRule::Input::host) return *flow.is_of_host ? Match::yes : Match::no;
  return *flow.is_of_host ? Match::no : Match::unknown;
}

Match matches_ports(const RoutingRule& rule, const Flow& flow) {
  if (!rule.source_ports && !rule.destination_ports) return Match::yes;
  if (!flow.has_ports) return Match::unknown;
  const bool both = contains(rule.source_ports, flow.source_port) &&
                    contains(rule.destination_ports, flow.destination_port);
  return both ? Match::yes : Match::no;
}

/// Whether a rule applies to a packet. As in the kernel, "not" inverts all conditions together.
Match matches(const RoutingRule& rule, const Flow& flow) {
  if (rule.family != family(flow.destination)) return Match::no;
  const Match input = matches_input(rule.input, flow);
  const Match ports = matches_ports(rule, flow);
  const bool fails = rule.never || input == Match::no || ports == Match::no ||
                     (rule.source && !rule.source->contains(flow.source)) ||
                     (rule.destination && !rule.destination->contains(flow.destination)) ||
                     (rule.tos != 0 && (rule.tos & kDscp) != (flow.tos & kDscp)) ||
                     (rule.protocol && *rule.protocol != flow.protocol);
  if (fails) return rule.is_inverted ? Match::yes : Match::no;
  if (!rule.is_certain || input == Match::unknown || ports == Match::unknown) return Match::unknown;
  return rule.is_inverted ? Match::no : Match::yes;
}

bool depends_on_headers(const RoutingRule& rule) {
  return rule.tos != 0 || rule.protocol || rule.source_ports || rule.destination_ports ||
         rule.input != RoutingRule::Input::any;
}

/// Selects a next hop by weight; always the same one for the same hash.
const RouteHop* by_weight(const std::vector<const RouteHop*>& hops, std::size_t hash) {
  if (hops.size() == 1) return hops.front();
  const std::size_t all =
      std::accumulate(hops.begin(), hops.end(), std::size_t{0},
                      [](std::size_t sum, const RouteHop* hop) { return sum + hop->weight; });
  // Not the low bits, which select the cache entry.
  std::size_t at = (hash >> 16) % std::max<std::size_t>(all, 1);
  for (const RouteHop* const hop : hops) {
    if (at < hop->weight) return hop;
    at -= hop->weight;
  }
  return hops.back();
}

/// Adds the gateways of the next hops among which packets to one prefix have a choice: those of
/// routes with the same TOS and metric, which follow each other.
void add_alternatives(const std::vector<HostRoute>& routes, std::set<IpAddress>& to) {
  for (auto at = routes.begin(); at != routes.end();) {
    const auto end = std::find_if(at, routes.end(), [&first = *at](const HostRoute& other) {
      return other.tos != first.tos || other.metric != first.metric;
    });
    const bool is_choice = end - at > 1 || at->hops.size() > 1;
    for (; at != end; ++at) {
      for (const RouteHop& hop : at->hops) {
        if (is_choice && hop.gateway) to.insert(*hop.gateway);
      }
    }
  }
}

}  // namespace

void NextHops::update(const HostView& view) {
  tables_.clear();
  redirects_.clear();
  std::set<IpAddress> alternatives;
  has_gateways_ = !view.redirects.empty();
  rules_ = view.rules;
  needs_headers_ = std::ranges::any_of(rules_, depends_on_headers);
  for (const Redirect& redirect : view.redirects) {
    redirects_.insert_or_assign(redirect.destination, redirect.gateway);
    alternatives.insert(redirect.gateway);  // a route replaces it
  }
  for (const RoutingTable& table : view.tables) {
    Table& copy = tables_[table.id];
    for (const HostRoute& route : table.routes) add(copy, route);
    for (auto& lengths : copy.by_family) {
      std::ranges::sort(lengths, std::ranges::greater{}, &PrefixLength::bits);
      for (const PrefixLength& length : lengths) {
        for (const auto& [prefix, routes] : length.routes) add_alternatives(routes, alternatives);
      }
    }
  }
  has_alternatives_ = !alternatives.empty();
  reachability_.watch(std::move(alternatives));
  cache_.assign(has_gateways_ ? kCached : 0, CachedHop{});
}

/// As in the kernel, routes with a TOS come first, then the lowest metric; equal ones stay in
/// order.
void NextHops::add(Table& table, const HostRoute& route) {
  has_gateways_ |=
      std::ranges::any_of(route.hops, [](const RouteHop& hop) { return hop.gateway.has_value(); });
  needs_headers_ |= route.tos != 0;
  const auto [address, bits] = route.destination;
  auto& lengths = table.by_family[static_cast<std::size_t>(family(address))];
  auto at = std::ranges::find(lengths, bits, &PrefixLength::bits);
  if (at == lengths.end())
    at = lengths.insert(lengths.end(), PrefixLength{bits, RoutesByPrefix(0, hash_)});
  auto& routes = at->routes[IpPrefix::network(address, bits)];
  const auto later = [&route](const HostRoute& other) {
    return other.tos != route.tos ? other.tos < route.tos : other.metric > route.metric;
  };
  routes.insert(std::ranges::find_if(routes, later), route);
}

IpAddress NextHops::find(const Flow& flow) {
  if (!has_gateways_) return flow.destination;
  const std::size_t hash = hash_of(flow);
  CachedHop& cached = cache_[hash % kCached];
  const std::uint64_t changes = has_alternatives_ ? reachability_.level_changes() : 0;
  if (cached.is_set && cached.level_changes == changes && cached.flow == flow) return cached.hop;
  IpAddress hop = flow.destination;
  const auto redirect = redirects_.find(flow.destination);
  if (redirect != redirects_.end() &&
      reachability_.level_of(redirect->second) != Reachability::Level::failed) {
    hop = redirect->second;
  } else if (const RouteHop* const selected = select(find_routes(flow), hash)) {
    hop = selected->gateway.value_or(flow.destination);
  }
  cached = CachedHop{flow, hop, changes, true};
  return hop;
}

NextHops::Routes NextHops::find_routes(const Flow& flow) const {
  for (const Match wanted : {Match::yes, Match::unknown}) {
    std::uint32_t from = 0;  // priority of the rule that a "goto" leads to
    for (const RoutingRule& rule : rules_) {
      if (rule.priority < from || matches(rule, flow) != wanted) continue;
      if (rule.jump) {
        if (wanted == Match::yes) from = *rule.jump;
        continue;
      }
      const auto table = tables_.find(rule.table);
      if (table == tables_.end()) continue;
      if (auto routes = longest_match(table->second, flow, rule.ignored_bits); !routes.empty()) {
        return routes;
      }
    }
  }
  for (const auto& [id, table] : tables_) {
    if (auto routes = longest_match(table, flow, std::nullopt); !routes.empty()) return routes;
  }
  return {};
}

NextHops::Routes NextHops::longest_match(const Table& table, const Flow& flow,
                                         std::optional<std::uint8_t> ignored_bits) {
  const IpAddress& destination = flow.destination;
  for (const PrefixLength& length :
       table.by_family[static_cast<std::size_t>(family(destination))]) {
    if (ignored_bits && length.bits <= *ignored_bits) break;
    const auto at = length.routes.find(IpPrefix::network(destination, length.bits));
    if (at == length.routes.end()) continue;
    Routes best;
    for (const HostRoute& route : at->second) {
      if (route.tos != 0 && (route.tos & kDscp) != (flow.tos & kDscp)) continue;
      const bool is_equal =
          best.empty() || (best.front()->tos == route.tos && best.front()->metric == route.metric);
      if (!is_equal) break;
      best.push_back(&route);
    }
    if (!best.empty()) return best;
  }
  return {};
}

Reachability::Level NextHops::level_of(const RouteHop& hop) const {
  return hop.gateway ? reachability_.level_of(*hop.gateway) : Reachability::Level::unknown;
}

/// Reachability comes before the preference of a router (RFC 4191, 3.2). Null if there are none.
const RouteHop* NextHops::select(const Routes& routes, std::size_t hash) const {
  if (routes.size() == 1 && routes.front()->hops.size() == 1) return &routes.front()->hops.front();
  std::vector<const RouteHop*> best;
  auto best_rank = std::pair(Reachability::Level::failed, HostRoute::Preference::low);
  for (const HostRoute* const route : routes) {
    // The hops of one route share its flows, whether or not they have been used before.
    std::vector<const RouteHop*> hops;
    std::vector<const RouteHop*> failed;
    auto rank = std::pair(Reachability::Level::failed, route->preference);
    for (const RouteHop& hop : route->hops) {
      const auto level = level_of(hop);
      rank.first = std::min(rank.first, level);
      (level == Reachability::Level::failed ? failed : hops).push_back(&hop);
    }
    if (!best.empty() && rank >= best_rank) continue;
    best = hops.empty() ? std::move(failed) : std::move(hops);
    best_rank = rank;
  }
  return best.empty() ? nullptr : by_weight(best, hash);
}

}  // namespace ipoib::link
