// Stations behind the host, which have addresses of their own.
#include <utility>

#include "link/link_impl.hpp"

namespace ipoib::link {

void Link::serve(const IpAddress& address, bool is_router, TimePoint now) {
  Impl& p = *impl_;
  if (p.host.is_own(address) || !p.host.serve(address, is_router)) return;
  p.remove_entry_of_this_host(address);
  if (p.bring_up.is_up()) p.announcer.start(address, now);
}

void Link::withdraw(const IpAddress& address) { (void)impl_->host.withdraw(address); }

void Link::search(const IpAddress& address, TimePoint now) {
  if (impl_->bring_up.is_up()) impl_->solicitor.search(address, now);
}

void Link::set_station_groups(std::vector<IpAddress> groups) {
  impl_->station_groups = std::move(groups);
  impl_->update_host_groups();
}

/// Those of the host come first: the table has a limit.
void Link::Impl::update_host_groups() {
  std::vector<IpAddress> all = host_groups;
  all.insert(all.end(), station_groups.begin(), station_groups.end());
  groups.set_host_groups(all);
}

std::vector<wire::Arp>& Link::station_requests() { return impl_->out.station_requests; }

}  // namespace ipoib::link
