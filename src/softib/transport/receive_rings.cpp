#include "softib/transport/receive_rings.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace softib::transport {

void ReceiveRings::add(int sender, RingReader ring) {
  const std::lock_guard lock(mutex_);
  rings_.push_back({sender, std::move(ring)});
}

void ReceiveRings::remove(int sender) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(rings_.begin(), rings_.end(),
                                  [&](const Entry& each) { return each.sender == sender; });
  if (found == rings_.end()) return;
  // A sender that publishes after this store sees it, and waits for `closed`; packets that were
  // published before are delivered here.
  found->ring.set_state(ReaderState::closing);
  (void)deliver(found->ring, std::numeric_limits<std::size_t>::max());
  found->ring.set_state(ReaderState::closed);
  rings_.erase(found);
}

void ReceiveRings::clear() {
  const std::lock_guard lock(mutex_);
  for (auto& each : rings_) each.ring.set_state(ReaderState::closed);
  rings_.clear();
}

void ReceiveRings::set_source(PacketSource& source, const std::function<void()>& change) {
  const std::lock_guard lock(mutex_);
  change();
  source_ = &source;
}

bool ReceiveRings::poll() {
  const std::lock_guard lock(mutex_);
  bool any = source_ != nullptr && source_->poll() != 0;
  for (auto& each : rings_) any |= deliver(each.ring, kPollBudget);
  return any;
}

bool ReceiveRings::take_requests() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (auto& each : rings_) any |= each.ring.take_request();
  return any;
}

std::size_t ReceiveRings::drain() {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = source_ != nullptr ? source_->poll() : 0;
  for (auto& each : rings_) {
    // The loop ends with what is published now, since a sender may write as fast as it reads.
    const auto published = each.ring.published();
    const auto before = each.ring.taken();
    while (each.ring.taken() < published && deliver(each.ring, kPollBudget)) {
    }
    // Only bytes that were taken count: nothing is taken from a broken ring, and its sender may
    // leave it so.
    bytes += each.ring.taken() - before;
  }
  return bytes;
}

/// Closes a broken ring but keeps it in the list; its sender then makes a new one.
bool ReceiveRings::deliver(RingReader& ring, std::size_t limit) {
  packets_.clear();
  if (!ring.read(packets_, limit)) {
    receiver_.malformed();
    ring.set_state(ReaderState::closed);
  }
  if (packets_.empty()) return false;
  receiver_.arrived(packets_);
  ring.release();
  return true;
}

}  // namespace softib::transport
