#include "softib/cm/listeners.hpp"

#include <algorithm>
#include <cerrno>

#include "softib/cm/limits.hpp"

namespace softib::cm {

using ipoib::Error;
using ipoib::Result;

Result<ListenerId> Listeners::add(wire::ServiceId service, std::uint64_t mask) {
  const Range range{mask, service.value() & mask};
  const bool taken = std::ranges::any_of(by_range_, [&](const auto& one) {
    const std::uint64_t common = one.first.mask & mask;
    return (one.first.service & common) == (range.service & common);
  });
  if (taken) return Error{EBUSY, "another listener has the service"};
  if (listeners_.size() >= kMaxListeners) return Error{ENOMEM, "too many listeners"};
  while (listeners_.contains(ListenerId(next_))) ++next_;
  const ListenerId listener(next_++);
  listeners_.emplace(listener, range);
  by_range_.emplace(range, listener);
  return listener;
}

void Listeners::remove(ListenerId listener) {
  const auto found = listeners_.find(listener);
  if (found == listeners_.end()) return;
  by_range_.erase(found->second);
  listeners_.erase(found);
}

std::optional<ListenerId> Listeners::find(wire::ServiceId service) const {
  for (auto at = by_range_.begin(); at != by_range_.end();) {
    const std::uint64_t mask = at->first.mask;
    const auto found = by_range_.find({mask, service.value() & mask});
    if (found != by_range_.end()) return found->second;
    if (mask == kExact) break;
    at = by_range_.lower_bound({mask + 1, 0});
  }
  return std::nullopt;
}

}  // namespace softib::cm
