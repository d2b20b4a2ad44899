#include "link/next_hops.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace ipoib::link {
namespace {

std::size_t hash_of(const Flow& flow) {
  const std::hash<IpAddress> hash;
  const std::size_t ports = std::size_t{flow.source_port} << 16 | flow.destination_port;
  return (hash(flow.source) * 31 + hash(flow.destination)) ^
         (ports * 31 + flow.protocol) * 0x9e3779b97f4a7c15ULL;
}

/// Selects a next hop by weight; always the same one for the same hash.
const RouteHop* by_weight(const std::vector<const RouteHop*>& hops, std::size_t hash) {
  if (hops.size() == 1) return hops.front();
  const std::size_t all =
      std::accumulate(hops.begin(), hops.end(), std::size_t{0},
                      [](std::size_t sum, const RouteHop* hop) { return sum + hop->weight; });
  // The low bits select the cache entry, so they are not used here.
  std::size_t at = (hash >> 16) % std::max<std::size_t>(all, 1);
  for (const RouteHop* const hop : hops) {
    if (at < hop->weight) return hop;
    at -= hop->weight;
  }
  return hops.back();
}

}  // namespace

NextHops::NextHops(Reachability& reachability, const HashKey& key)
    : reachability_(reachability),
      key_(key),
      routes_(std::make_shared<HostRoutes>(HostView(), key)) {}

void NextHops::update(const HostView& view) { update(std::make_shared<HostRoutes>(view, key_)); }

void NextHops::update(std::shared_ptr<HostRoutes> routes) {
  routes_ = std::move(routes);
  watched_ = routes_->alternatives().size();
  reachability_.watch(routes_->alternatives());
  ++version_;
}

void NextHops::apply(const RouteChange& change) {
  routes_->apply(change);
  ++version_;
  if (watched_ == routes_->alternatives().size()) return;
  watched_ = routes_->alternatives().size();
  reachability_.watch(routes_->alternatives());
}

IpAddress NextHops::find(const Flow& flow) {
  if (!has_gateways()) return flow.destination;
  const std::size_t hash = hash_of(flow);
  if (cache_.empty()) cache_.resize(kCached);
  CachedHop& cached = cache_[hash % kCached];
  const std::uint64_t changes = routes_->alternatives().empty() ? 0 : reachability_.level_changes();
  const bool is_current = cached.version == version_ && cached.level_changes == changes;
  if (is_current && cached.flow == flow) return cached.hop;
  IpAddress hop = flow.destination;
  const IpAddress* const redirect = routes_->redirect_of(flow.destination);
  if (redirect != nullptr && reachability_.level_of(*redirect) != Reachability::Level::failed) {
    hop = *redirect;
  } else if (const RouteHop* const selected = select(routes_->find(flow), hash)) {
    hop = selected->gateway.value_or(flow.destination);
  }
  cached = CachedHop{flow, hop, changes, version_};
  return hop;
}

bool NextHops::covers(const Flow& flow) const {
  return routes_->redirect_of(flow.destination) != nullptr || !routes_->find(flow).empty();
}

Reachability::Level NextHops::level_of(const RouteHop& hop) const {
  return hop.gateway ? reachability_.level_of(*hop.gateway) : Reachability::Level::unknown;
}

/// Reachability comes before the preference of a router (RFC 4191, 3.2). Returns null if there are
/// no hops.
const RouteHop* NextHops::select(const HostRoutes::Routes& routes, std::size_t hash) const {
  if (routes.size() == 1 && routes.front()->hops.size() == 1) return &routes.front()->hops.front();
  std::vector<const RouteHop*> best;
  auto best_rank = std::pair(Reachability::Level::failed, HostRoute::Preference::low);
  for (const HostRoute* const route : routes) {
    // The hops of one route share its flows, whether they have been used before or not.
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
