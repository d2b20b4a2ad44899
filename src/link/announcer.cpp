#include "link/announcer.hpp"

#include <algorithm>
#include <chrono>

#include "link/arp_output.hpp"
#include "link/host_addresses.hpp"

namespace ipoib::link {
namespace {

/// Between two addresses that are announced together.
constexpr Duration kSpacing = std::chrono::milliseconds(1);

}  // namespace

void Announcer::start(Ipv4Address address, TimePoint now) {
  if (config_.ageing.announcements == 0) return;
  std::erase_if(pending_, [address](const Pending& p) { return p.address == address; });
  if (pending_.size() >= config_.limits.announcements) {
    out_.counters.add(Counter::arp_announcements_skipped);
    return;
  }
  const auto together = std::ranges::count_if(
      pending_, [now](const Pending& p) { return p.due < now + std::chrono::seconds(1); });
  pending_.push_back(Pending{address, now + kSpacing * together, config_.ageing.announcements});
}

void Announcer::start_all(TimePoint now) {
  stop();
  for (const Ipv4Prefix& prefix : host_.all()) start(prefix.address, now);
}

void Announcer::tick(TimePoint now) {
  for (Pending& p : pending_) {
    if (p.due > now) continue;
    p.left = host_.is_own(p.address) ? p.left - 1 : 0;
    p.due = now + config_.ageing.announce_interval;
    if (host_.is_own(p.address)) arp_.announce(p.address);
  }
  std::erase_if(pending_, [](const Pending& p) { return p.left == 0; });
}

TimePoint Announcer::next_deadline() const {
  const auto first = std::ranges::min_element(pending_, {}, &Pending::due);
  return first == pending_.end() ? kNever : first->due;
}

}  // namespace ipoib::link
