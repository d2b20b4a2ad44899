// The connections whose receiver had no room, in order.
//
// All packets for a process go through one ring. So one connection to that process offers its
// packets again while the others wait: until there is room for it, there is none for them either.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "softib/hca/queue_pair.hpp"

namespace softib::hca {

class RoomQueues {
 public:
  /// Whether it may send: it is the first of those that wait for its receiver, or none does.
  [[nodiscard]] bool admits(const QueuePair& qp) const {
    const auto queue = queues_.find(receiver_of(qp));
    return queue == queues_.end() || queue->second.front() == &qp;
  }
  [[nodiscard]] bool empty() const { return queues_.empty(); }
  /// There was no room for it, or not enough, or it is not admitted. If it was the first, it
  /// becomes the last.
  void wait(QueuePair& qp) {
    auto& waits_for = qp.connection().waits_for;
    const bool is_new = !waits_for;
    if (is_new) waits_for = receiver_of(qp);
    auto& queue = queues_[*waits_for];
    if (!is_new && queue.front() != &qp) return;
    if (!is_new) queue.pop_front();
    queue.push_back(&qp);
  }
  /// It has found room, or needs none. Returns the one that is first in its place, or null.
  QueuePair* leave(QueuePair& qp) {
    const auto waits_for = std::exchange(qp.connection().waits_for, std::nullopt);
    if (!waits_for) return nullptr;
    const auto found = queues_.find(*waits_for);
    auto& queue = found->second;
    const bool was_first = queue.front() == &qp;
    std::erase(queue, &qp);
    if (!queue.empty()) return was_first ? queue.front() : nullptr;
    queues_.erase(found);
    return nullptr;
  }
  template <class Call>
  void for_each_first(Call call) const {
    for (const auto& [receiver, queue] : queues_) call(*queue.front());
  }

 private:
  using Receiver = Connection::Receiver;
  [[nodiscard]] static Receiver receiver_of(const QueuePair& qp) {
    const auto& attributes = qp.connection().attributes;
    return {attributes.path.dlid, QpnLayout::slot(attributes.peer)};
  }

  std::map<Receiver, std::deque<QueuePair*>> queues_;
};

}  // namespace softib::hca
