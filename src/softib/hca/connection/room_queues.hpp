// The connections whose receiver had no room, in order.
//
// All packets for a process go through one ring. So one connection to that process offers its
// packets again while the others wait: until there is room for it, there is none for them either.
#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "ipoib/time.hpp"

namespace softib::hca {

/// A process that receives: a LID and the slot in its queue pair numbers.
using PeerProcess = std::pair<std::uint16_t, std::uint32_t>;

/// The part of a connection that a schedule uses.
struct ScheduleEntry {
  bool is_active = false;                         ///< or postponed
  ipoib::TimePoint scheduled_at = ipoib::kNever;  ///< when its timer expires
  std::optional<PeerProcess> waits_for;           ///< this process had no room for its packets
};

class RoomQueues {
 public:
  /// Whether a connection may send: it is the first of those that wait for the receiver, or none
  /// does.
  [[nodiscard]] bool admits(const ScheduleEntry& entry, PeerProcess receiver) const {
    const auto queue = queues_.find(receiver);
    return queue == queues_.end() || queue->second.front() == &entry;
  }
  [[nodiscard]] bool empty() const { return queues_.empty(); }
  /// Lets a connection wait, because there was no room for it, or not enough, or it is not
  /// admitted. If it was the first, it becomes the last. If it waits for another receiver already,
  /// it goes on waiting for that.
  void wait(ScheduleEntry& entry, PeerProcess receiver) {
    const bool is_new = !entry.waits_for;
    if (is_new) entry.waits_for = receiver;
    auto& queue = queues_[*entry.waits_for];
    if (!is_new && queue.front() != &entry) return;
    if (!is_new) queue.pop_front();
    queue.push_back(&entry);
  }
  /// Ends the waiting of a connection that has found room, or needs none. Returns the one that is
  /// now the first in its place, or null.
  ScheduleEntry* leave(ScheduleEntry& entry) {
    const auto waits_for = std::exchange(entry.waits_for, std::nullopt);
    if (!waits_for) return nullptr;
    const auto found = queues_.find(*waits_for);
    assert(found != queues_.end());
    auto& queue = found->second;
    const bool was_first = queue.front() == &entry;
    std::erase(queue, &entry);
    if (!queue.empty()) return was_first ? queue.front() : nullptr;
    queues_.erase(found);
    return nullptr;
  }
  template <class Call>
  void for_each_first(Call call) const {
    for (const auto& [receiver, queue] : queues_) call(*queue.front());
  }

 private:
  std::map<PeerProcess, std::deque<ScheduleEntry*>> queues_;  ///< none is empty
};

}  // namespace softib::hca
