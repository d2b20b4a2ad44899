#include "link/changes.hpp"

#include <utility>

namespace ipoib::link {

void Changes::watch(Wanted wanted) {
  wanted_ = wanted;
  if (wanted.neighbours || wanted.groups) return;
  waiting_.clear();
  waiting_.shrink_to_fit();
  lost_ = 0;
}

void Changes::add(NeighbourChange::Kind kind, const NeighbourInfo& neighbour,
                  std::string_view why) {
  add(NeighbourChange{kind, neighbour, std::string(why)});
}

void Changes::add(GroupChange::Kind kind, const GroupInfo& group, std::string_view why) {
  add(GroupChange{kind, group, std::string(why)});
}

void Changes::add(Change&& change) {
  if (lost_ > 0 || waiting_.size() >= kMax) {
    ++lost_;
  } else {
    waiting_.push_back(std::move(change));
  }
}

ChangePage Changes::take(std::size_t limit, TimePoint now) {
  ChangePage page;
  while (!waiting_.empty() && page.changes.size() < limit) {
    auto& change = page.changes.emplace_back(std::move(waiting_.front()));
    waiting_.pop_front();
    auto* const neighbour = std::get_if<NeighbourChange>(&change);
    if (neighbour == nullptr) continue;
    const auto to_age = [now](std::optional<Duration>& age) {
      if (age) *age += now.time_since_epoch();
    };
    to_age(neighbour->neighbour.used);
    to_age(neighbour->neighbour.confirmed);
  }
  if (waiting_.empty()) page.lost = std::exchange(lost_, 0);
  return page;
}

}  // namespace ipoib::link
