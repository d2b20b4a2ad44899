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
  redirects_.clear();
  alternatives_.clear();
  has_gateways_ = !view.redirects.empty();
  rules_ = view.rules;
  needs_headers_ = std::ranges::any_of(rules_, depends_on_headers);
  for (const Redirect& redirect : view.redirects) {
    redirects_.insert_or_assign(redirect.destination, redirect.gateway);
    alternatives_.insert(redirect.gateway);  // a route replaces it
  }
  tables_.update(view);
  tables_.for_each([this](const std::vector<HostRoute>& routes) { note(routes); });
  reachability_.watch(alternatives_);
  ++version_;
}

void NextHops::apply(const RouteChange& change) {
  const std::size_t before = alternatives_.size();
  std::visit([this](const auto& one) { on(one); }, change);
  if (alternatives_.size() != before) reachability_.watch(alternatives_);
  ++version_;
}

void NextHops::on(const RouteAdded& change) { note(tables_.at(tables_.add(change))); }

void NextHops::on(const NextHopChanged& change) {
  for (const auto& place : tables_.change(change)) note(tables_.at(place));
}

/// As in the kernel, a rule is added after those of its family with the same priority.
void NextHops::on(const RuleChanged& change) {
  const RoutingRule& rule = change.rule;
  const auto known = std::ranges::find(rules_, rule);
  if (known != rules_.end()) rules_.erase(known);
  if (!change.is_added || rules_.size() >= HostView::kMaxRules) return;
  const auto later = [&rule](const RoutingRule& other) {
    return other.family == rule.family && other.priority > rule.priority;
  };
  rules_.insert(std::ranges::find_if(rules_, later), rule);
  needs_headers_ |= depends_on_headers(rule);
}

void NextHops::note(const std::vector<HostRoute>& routes) {
  for (const HostRoute& route : routes) {
    has_gateways_ |= std::ranges::any_of(
        route.hops, [](const RouteHop& hop) { return hop.gateway.has_value(); });
    needs_headers_ |= route.tos != 0;
  }
  add_alternatives(routes, alternatives_);
}

IpAddress NextHops::find(const Flow& flow) {
  if (!has_gateways_) return flow.destination;
  const std::size_t hash = hash_of(flow);
  if (cache_.empty()) cache_.resize(kCached);
  CachedHop& cached = cache_[hash % kCached];
  const std::uint64_t changes = alternatives_.empty() ? 0 : reachability_.level_changes();
  const bool is_current = cached.version == version_ && cached.level_changes == changes;
  if (is_current && cached.flow == flow) return cached.hop;
  IpAddress hop = flow.destination;
  const auto redirect = redirects_.find(flow.destination);
  if (redirect != redirects_.end() &&
      reachability_.level_of(redirect->second) != Reachability::Level::failed) {
    hop = redirect->second;
  } else if (const RouteHop* const selected = select(find_routes(flow), hash)) {
    hop = selected->gateway.value_or(flow.destination);
  }
  cached = CachedHop{flow, hop, changes, version_};
  return hop;
}

bool NextHops::covers(const Flow& flow) const {
  return redirects_.contains(flow.destination) || !find_routes(flow).empty();
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
      auto routes = tables_.longest_match(rule.table, flow, rule.ignored_bits);
      if (!routes.empty()) return routes;
    }
  }
  for (const std::uint32_t id : tables_.ids()) {
    if (auto routes = tables_.longest_match(id, flow, std::nullopt); !routes.empty()) return routes;
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
