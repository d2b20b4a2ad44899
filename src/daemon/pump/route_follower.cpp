#include "daemon/pump/route_follower.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

namespace ipoib::daemon {

/// The changes of the last turn were read before this one began.
void RouteFollower::turn(TimePoint now) {
  if (source_ == nullptr) return;
  for (Kept& kept : kept_ | std::views::reverse) {
    if (kept.read != kNever) break;
    kept.read = now;
  }
  while (!kept_.empty() && kept_.front().read < now - kKept) {
    kept_since_ = kept_.front().read + Duration(1);
    kept_.pop_front();
  }
  if (now >= next_read_) refresh(now);
}

void RouteFollower::refresh(TimePoint now) {
  if (source_ == nullptr) return;
  next_read_ = now + kInterval;
  changes_.clear();
  source_->read(changes_);
  if (changes_.empty()) return;
  pass_on(changes_, now);
  keep(changes_, now);
}

void RouteFollower::keep(std::vector<RouteChange>& changes, TimePoint now) {
  for (RouteChange& change : changes) {
    wants_view_ |= std::holds_alternative<RoutesUnknown>(change);
    kept_.push_back({kNever, std::move(change)});
  }
  if (kept_.size() <= kMaxKept) return;
  kept_.clear();
  kept_since_ = now + Duration(1);
}

void RouteFollower::on_view(TimePoint began, TimePoint now) {
  if (source_ == nullptr) return;
  changes_.clear();
  if (began < kept_since_) {
    changes_.emplace_back(RoutesUnknown{});
    wants_view_ = true;
  }
  for (const Kept& kept : kept_) {
    if (kept.read >= began) changes_.push_back(kept.change);
  }
  if (!changes_.empty()) pass_on(changes_, now);
}

void RouteFollower::pass_on(std::span<const RouteChange> changes, TimePoint now) {
  for (link::Link* const link : links_) link->on_routes_changed(changes, now);
}

}  // namespace ipoib::daemon
