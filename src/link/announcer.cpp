#include "link/announcer.hpp"

#include <algorithm>
#include <chrono>

#include "ipoib/overloaded.hpp"
#include "link/arp_output.hpp"
#include "link/host_addresses.hpp"
#include "link/nd_output.hpp"

namespace ipoib::link {
namespace {

/// Interval between the first announcements of addresses that are started together.
constexpr Duration kSpacing = std::chrono::milliseconds(1);

}  // namespace

void Announcer::start(const IpAddress& address, TimePoint now) {
  if (config_.ageing.announcements == 0) return;
  erase(address);
  if (pending_.size() >= config_.limits.announcements) {
    out_.counters.add(Counter::announcements_skipped);
    return;
  }
  const auto together = std::ranges::count_if(
      pending_, [now](const Pending& p) { return p.due < now + std::chrono::seconds(1); });
  pending_.push_back(Pending{address, now + kSpacing * together, config_.ageing.announcements});
}

void Announcer::repeat(const IpAddress& address, TimePoint now) {
  if (std::ranges::find(pending_, address, &Pending::address) == pending_.end())
    start(address, now);
}

void Announcer::stop(const IpAddress& address) {
  const auto found = std::ranges::find(pending_, address, &Pending::address);
  if (found == pending_.end()) return;
  if (found->left == config_.ageing.announcements) {
    found->left = 1;
  } else {
    pending_.erase(found);
  }
}

void Announcer::erase(const IpAddress& address) {
  std::erase_if(pending_, [&address](const Pending& p) { return p.address == address; });
}

void Announcer::start_all(TimePoint now) {
  stop();
  for (const IpPrefix& prefix : host_.all()) start(prefix.address, now);
  for (const auto& [address, is_router] : host_.served()) start(address, now);
}

void Announcer::tick(TimePoint now) {
  for (Pending& p : pending_) {
    if (p.due > now) continue;
    p.left = host_.speaks_for(p.address) ? p.left - 1 : 0;
    p.due = now + config_.ageing.announce_interval;
    if (host_.speaks_for(p.address)) announce(p.address, now);
  }
  std::erase_if(pending_, [](const Pending& p) { return p.left == 0; });
}

void Announcer::announce(const IpAddress& address, TimePoint now) {
  std::visit(Overloaded{
                 [&](Ipv4Address ipv4) { arp_.announce(ipv4); },
                 [&](const Ipv6Address& ipv6) { nd_.announce(ipv6, now); },
             },
             address);
}

TimePoint Announcer::next_deadline() const {
  const auto first = std::ranges::min_element(pending_, {}, &Pending::due);
  return first == pending_.end() ? kNever : first->due;
}

}  // namespace ipoib::link
