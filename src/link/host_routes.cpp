#include "link/host_routes.hpp"

#include <algorithm>
#include <utility>

namespace ipoib::link {
namespace {

constexpr std::uint8_t kDscp = 0xfc;  // without the bits of ECN (RFC 3168)

bool contains(const std::optional<PortRange>& range, std::uint16_t port) {
  return !range || (port >= range->first && port <= range->last);
}

enum class Match { no, yes, unknown };

/// Whether the condition "iif" matches.
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

HostRoutes::HostRoutes(const HostView& view, const HashKey& key)
    : hash_(key), tables_(key), rules_(view.rules), redirects_(0, hash_) {
  has_gateways_ = !view.redirects.empty();
  needs_headers_ = std::ranges::any_of(rules_, depends_on_headers);
  for (const Redirect& redirect : view.redirects) {
    redirects_.insert_or_assign(redirect.destination, redirect.gateway);
    alternatives_.insert(redirect.gateway);  // a route replaces it
  }
  tables_.update(view);
  tables_.for_each([this](const std::vector<HostRoute>& routes) { note(routes); });
}

void HostRoutes::apply(const RouteChange& change) {
  std::visit([this](const auto& one) { on(one); }, change);
}

void HostRoutes::on(const RouteAdded& change) { note(tables_.at(tables_.add(change))); }

void HostRoutes::on(const NextHopChanged& change) {
  for (const auto& key : tables_.change(change)) note(tables_.at(key));
}

/// As in the kernel, a rule is added after those with the same priority.
void HostRoutes::on(const RuleChanged& change) {
  const RoutingRule& rule = change.rule;
  const auto known = std::ranges::find(rules_, rule);
  if (known != rules_.end()) rules_.erase(known);
  if (!change.is_added || rules_.size() >= HostView::kMaxRules) return;
  const auto later = [&rule](const RoutingRule& other) { return other.priority > rule.priority; };
  rules_.insert(std::ranges::find_if(rules_, later), rule);
  needs_headers_ |= depends_on_headers(rule);
}

void HostRoutes::note(const std::vector<HostRoute>& routes) {
  for (const HostRoute& route : routes) {
    has_gateways_ |= std::ranges::any_of(
        route.hops, [](const RouteHop& hop) { return hop.gateway.has_value(); });
    needs_headers_ |= route.tos != 0;
  }
  add_alternatives(routes, alternatives_);
}

const IpAddress* HostRoutes::redirect_of(const IpAddress& destination) const {
  const auto at = redirects_.find(destination);
  return at == redirects_.end() ? nullptr : &at->second;
}

HostRoutes::Routes HostRoutes::find(const Flow& flow) const {
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

}  // namespace ipoib::link
