// The methods of Link for stations behind the host, which have addresses of their own.
#include <algorithm>
#include <utility>

#include "link/link_impl.hpp"

namespace ipoib::link {

void Link::serve(const IpAddress& address, bool is_router, TimePoint now) {
  Impl& p = *impl_;
  if (p.host.is_own(address)) return;
  const bool is_new = p.host.serve(address, is_router);
  if (is_new) p.remove_entry_of_this_host(address);
  if (!p.bring_up.is_up()) return;
  if (is_new) {
    p.announcer.start(address, now);
  } else {
    p.announcer.repeat(address, now);
  }
}

void Link::withdraw(const IpAddress& address) { (void)impl_->host.withdraw(address); }

void Link::search(const IpAddress& address, TimePoint now) {
  if (impl_->bring_up.is_up()) impl_->solicitor.search(address, now);
}

void Link::set_station_groups(std::vector<IpAddress> groups, TimePoint now) {
  impl_->station_groups = std::move(groups);
  impl_->update_host_groups(now);
}

/// Passes the groups of the host and of stations to the table. It has a limit, which neither can
/// use up alone.
void Link::Impl::update_host_groups(TimePoint now) {
  const auto first = std::min(station_groups.size(), config.limits.station_groups);
  const auto middle = station_groups.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<IpAddress> all(station_groups.begin(), middle);
  all.insert(all.end(), host_groups.begin(), host_groups.end());
  all.insert(all.end(), middle, station_groups.end());
  groups.set_host_groups(all, now);
}

std::vector<wire::Arp>& Link::station_requests() { return impl_->out.station_requests; }

}  // namespace ipoib::link
