#include "softib/hca/completion_queue.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace softib::hca {

CompletionQueue::CompletionQueue(std::uint32_t capacity, CompletionClock* clock)
    : clock_(clock),
      ring_(std::bit_ceil(capacity + 1)),
      times_(clock != nullptr ? ring_.size() : 0),
      mask_(static_cast<std::uint32_t>(ring_.size() - 1)),
      capacity_(capacity) {
  if (clock != nullptr) ++clock->users;
}

CompletionQueue::~CompletionQueue() {
  if (clock_ != nullptr) --clock_->users;
}

ibv_wc& CompletionQueue::next() {
  auto& completion = at(size_.load(std::memory_order_relaxed)).completion;
  completion = {};
  return completion;
}

CompletionQueue::PushResult CompletionQueue::push(WorkProgress* queue, std::uint32_t position,
                                                  bool solicited) {
  const auto used = size_.load(std::memory_order_relaxed);
  if (in_error_) return PushResult::dropped;
  if (used == capacity_) {
    in_error_ = true;
    return PushResult::overrun;
  }
  assert(used < capacity_);
  Entry& entry = at(used);
  entry.queue = queue;
  entry.position = position;
  // "A completion with error counts as a solicited one" (IBA 11.4.2.2).
  entry.is_solicited = solicited || entry.completion.status != IBV_WC_SUCCESS;
  if (entry.is_solicited) solicited_ = used + 1;
  if (clock_ != nullptr) times_[index(used)] = clock_->now;
  size_.store(used + 1, std::memory_order_release);

  const bool notify = arm_ == Arm::any || (arm_ == Arm::solicited && entry.is_solicited);
  if (!notify) return PushResult::stored;
  arm_ = Arm::off;
  announced_ = used + 1;
  return PushResult::stored_and_notify;
}

int CompletionQueue::poll(std::span<ibv_wc> out, std::span<ipoib::TimePoint> times) {
  const auto used = size_.load(std::memory_order_relaxed);
  if (used == 0 && in_error_) return -1;
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(used, out.size()));
  if (clock_ != nullptr && !times.empty()) {
    for (std::uint32_t i = 0; i < count; ++i) times[i] = times_[index(i)];
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Entry& entry = at(i);
    out[i] = entry.completion;
    if (entry.queue != nullptr) entry.queue->retire(entry.position);
  }
  // An empty queue restarts at the front of the ring, which is still in the cache.
  head_ = count == used ? 0 : head_ + count;
  solicited_ -= std::min(solicited_, count);
  announced_ -= std::min(announced_, count);
  size_.store(used - count, std::memory_order_release);
  return static_cast<int>(count);
}

bool CompletionQueue::arm(bool solicited_only) {
  if (!solicited_only) {
    arm_ = Arm::any;
  } else if (arm_ == Arm::off) {
    arm_ = Arm::solicited;
  }
  const auto used = size_.load(std::memory_order_relaxed);
  if ((arm_ == Arm::any ? used : solicited_) <= announced_) return false;
  arm_ = Arm::off;
  announced_ = used;
  return true;
}

void CompletionQueue::discard(Qpn qp) {
  const auto used = size_.load(std::memory_order_relaxed);
  std::uint32_t kept = 0;
  std::uint32_t announced = 0;
  solicited_ = 0;
  for (std::uint32_t i = 0; i < used; ++i) {
    if (at(i).completion.qp_num == qp.value()) continue;
    if (clock_ != nullptr) times_[index(kept)] = times_[index(i)];
    at(kept++) = at(i);
    if (at(i).is_solicited) solicited_ = kept;
    if (i < announced_) announced = kept;
  }
  announced_ = announced;
  size_.store(kept, std::memory_order_release);
}

bool CompletionQueue::resize(std::uint32_t capacity) {
  const auto used = size_.load(std::memory_order_relaxed);
  if (used > capacity) return false;
  std::vector<Entry> ring(std::bit_ceil(capacity + 1));
  std::vector<ipoib::TimePoint> times(clock_ != nullptr ? ring.size() : 0);
  for (std::uint32_t i = 0; i < used; ++i) {
    ring[i] = at(i);
    if (clock_ != nullptr) times[i] = times_[index(i)];
  }
  ring_ = std::move(ring);
  times_ = std::move(times);
  mask_ = static_cast<std::uint32_t>(ring_.size() - 1);
  capacity_ = capacity;
  head_ = 0;
  return true;
}

}  // namespace softib::hca
