// Passes changes of the host's configuration to the objects of a link.
#include <utility>

#include "ipoib/well_known_groups.hpp"
#include "link/link.hpp"
#include "link/link_impl.hpp"

namespace ipoib::link {
namespace {

/// The groups that the host has joined. If it routes multicast, it also gets what senders send to
/// the all-routers group because the group of the packet does not exist (RFC 4391, 10).
std::vector<IpAddress> groups_of(const HostView& view) {
  std::vector<IpAddress> groups;
  if (view.routes_ipv4_multicast) groups.emplace_back(kAllRouters);
  if (view.routes_ipv6_multicast) groups.emplace_back(kAllRoutersOfIpv6);
  groups.insert(groups.end(), view.groups.begin(), view.groups.end());
  return groups;
}

}  // namespace

void Link::on_host_changed(const HostView& view, TimePoint now,
                           std::shared_ptr<HostRoutes> routes) {
  Impl& p = *impl_;
  const auto added = p.host.update(view);
  if (routes) {
    p.next_hops.update(std::move(routes));
  } else {
    p.next_hops.update(view);
  }
  p.unrouted.set_known(true);
  p.host_groups = groups_of(view);
  p.update_host_groups(now);
  p.routed.set_families(view.routes_ipv4_multicast, view.routes_ipv6_multicast);
  p.update_routed_groups(now);
  p.remove_own_entries();
  p.transmitter.retry(now);
  if (!p.bring_up.is_up()) return;
  for (const IpAddress& address : added) p.announcer.start(address, now);
}

void Link::on_routes_changed(std::span<const RouteChange> changes, TimePoint now) {
  Impl& p = *impl_;
  for (const RouteChange& change : changes) {
    if (std::holds_alternative<RoutesUnknown>(change)) p.unrouted.set_known(false);
    p.next_hops.apply(change);
  }
  p.transmitter.retry(now);
}

void Link::Impl::remove_own_entries() {
  for (const IpPrefix& prefix : host.all()) {
    remove_entry_of_this_host(prefix.address);
    if (const auto broadcast = prefix.broadcast()) remove_entry_of_this_host(*broadcast);
  }
}

void Link::Impl::remove_entry_of_this_host(const IpAddress& address) {
  if (Neighbour* const entry = neighbours.find(address)) {
    neighbours.remove(*entry, Counter::drop_bad_destination, "an address of this host");
  }
}

}  // namespace ipoib::link
