#include "softib/cm/listeners.hpp"

#include <algorithm>
#include <cerrno>

#include "softib/cm/limits.hpp"

namespace softib::cm {

using ipoib::Error;
using ipoib::Result;

Result<ListenerId> Listeners::add(wire::ServiceId service, std::uint64_t mask, std::uint8_t port) {
  const Range range{mask, service.value() & mask, port};
  const bool taken = std::ranges::any_of(by_range_, [&](const auto& one) {
    const auto other = one.first.port;
    if (port != other && port != kAnyPort && other != kAnyPort) return false;
    const std::uint64_t common = one.first.mask & mask;
    return (one.first.service & common) == (range.service & common);
  });
  if (taken) {
    return Error{EBUSY,
                 "another listener of the process has the service, or part of its range: choose "
                 "another port"};
  }
  if (listeners_.size() >= kMaxListeners) {
    return Error{
        ENOMEM, "a process can have " + std::to_string(kMaxListeners) + " listeners: destroy some"};
  }
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

std::optional<ListenerId> Listeners::find(wire::ServiceId service, std::uint8_t port) const {
  for (auto at = by_range_.begin(); at != by_range_.end();) {
    const std::uint64_t mask = at->first.mask;
    for (const auto at_port : {port, kAnyPort}) {
      const auto found = by_range_.find({mask, service.value() & mask, at_port});
      if (found != by_range_.end()) return found->second;
    }
    if (mask == kExact) break;
    at = by_range_.lower_bound({mask + 1, 0, kAnyPort});
  }
  return std::nullopt;
}

}  // namespace softib::cm
