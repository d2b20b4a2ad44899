#include "daemon/pump/shared_view.hpp"

#include <utility>

namespace ipoib::daemon {

void SharedView::add(link::Link& link, TimePoint now) {
  links_.push_back(&link);
  for (const auto& [address, is_router] : served_) link.serve(address, is_router, now);
  if (!groups_.empty()) link.set_station_groups(groups_, now);
}

void SharedView::tell_links(ethernet::Stations& stations, TimePoint now) {
  for (const auto& [address, is_router, on] : stations.services()) {
    for (link::Link* const link : links_) {
      if (on) {
        link->serve(address, is_router, now);
      } else {
        link->withdraw(address);
      }
    }
    if (on) {
      served_[address] = is_router;
    } else {
      served_.erase(address);
    }
  }
  stations.services().clear();
  if (auto groups = stations.take_groups()) {
    groups_ = std::move(*groups);
    for (link::Link* const link : links_) link->set_station_groups(groups_, now);
  }
}

}  // namespace ipoib::daemon
