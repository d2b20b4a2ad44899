#include "softib/transport/arrivals.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace softib::transport {

void Arrivals::add(int sender, RingReader ring) {
  const std::lock_guard lock(mutex_);
  rings_.push_back({sender, std::move(ring)});
}

void Arrivals::remove(int sender) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(rings_.begin(), rings_.end(),
                                  [&](const Arrival& each) { return each.sender == sender; });
  if (found == rings_.end()) return;
  // Who publishes from now on sees that it may not be taken; all before is.
  found->ring.set_end(RingEnd::announced);
  (void)take_from(found->ring, std::numeric_limits<std::size_t>::max());
  found->ring.set_end(RingEnd::complete);
  rings_.erase(found);
}

void Arrivals::clear() {
  const std::lock_guard lock(mutex_);
  for (auto& each : rings_) each.ring.set_end(RingEnd::complete);
  rings_.clear();
}

bool Arrivals::take() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (auto& each : rings_) any |= take_from(each.ring, kPacketsAtATime);
  return any;
}

void Arrivals::take_all() {
  const std::lock_guard lock(mutex_);
  for (auto& each : rings_) {
    // Not for as long as there is something: a sender may be as fast as we are.
    const auto published = each.ring.published();
    while (each.ring.taken() < published && take_from(each.ring, kPacketsAtATime)) {
    }
  }
}

/// A broken ring stays in its place, and ends: its sender makes another one.
bool Arrivals::take_from(RingReader& ring, std::size_t limit) {
  packets_.clear();
  if (!ring.read(packets_, limit)) {
    receiver_.malformed();
    ring.set_end(RingEnd::complete);
  }
  if (packets_.empty()) return false;
  receiver_.arrived(packets_);
  ring.release();
  return true;
}

}  // namespace softib::transport
