#include "softib/verbs/wakeup_policy.hpp"

#include <algorithm>
#include <utility>

namespace softib::verbs {

using transport::Waiter;
using transport::WakeupEntry;

namespace {

/// The time of the next check, at a full millisecond, as the timers of connections.
ipoib::TimePoint next_check(ipoib::TimePoint now) {
  return std::chrono::floor<std::chrono::milliseconds>(now) + kPollCheck;
}

}  // namespace

void WakeupPolicy::add(QueueWakeups& queue, const hca::CompletionQueue& model) {
  queue.model = &model;
  queues_.push_back(&queue);
}

void WakeupPolicy::add_receiver(Qpn qp, QueueWakeups& queue) {
  queue.receivers.push_back(qp);
  set_(QpnLayout::index(qp), queue.waiter);
  set_multicast_waiter();
}

void WakeupPolicy::remove_receiver(Qpn qp, QueueWakeups& queue) {
  std::erase(queue.receivers, qp);
  set_(QpnLayout::index(qp), Waiter::kEngine);
  set_multicast_waiter();
}

void WakeupPolicy::add_connection() {
  if (connections_++ != 0) return;
  set_taker(Taker::engine);
  set_(WakeupEntry::kRequests, requests_);
}

void WakeupPolicy::remove_connection() {
  if (--connections_ == 0) set_taker(Taker::nobody);
}

void WakeupPolicy::on_empty_poll(QueueWakeups& queue, ipoib::TimePoint now) {
  if (!queue.model->is_armed() && queue.waiter != Waiter::kNone) {
    set_queue_waiter(queue, Waiter::kNone);
  }
  if (!engine_takes()) return;
  note_poll();
  after_completions_.on_poll(now);
  after_posting_.on_poll(now);
  is_any_armed_ = is_any_armed();
  if (!is_any_armed_) set_taker(Taker::program);
}

void WakeupPolicy::begin_post(ipoib::TimePoint now) {
  is_any_armed_ = is_any_armed();
  after_completions_.begin_call(now);
  if (is_any_armed_) return;
  if (after_posting_.polls_on()) {
    has_polled_ = true;
    set_taker(Taker::program);
  } else {
    after_posting_.expect_poll(now);
  }
}

void WakeupPolicy::end_call(ipoib::TimePoint now) {
  after_completions_.end_call(now);
  after_posting_.end_call(now);
}

bool WakeupPolicy::must_note_completions() {
  if (taker_ == Taker::nobody) return false;
  note_poll();
  return !after_completions_.polls_on();
}

bool WakeupPolicy::on_completions(ipoib::TimePoint now) {
  after_posting_.on_poll(now);
  after_completions_.on_poll(now);
  after_completions_.expect_poll(now);
  if (taker_ != Taker::program) return false;
  set_taker(Taker::engine);
  return true;
}

void WakeupPolicy::on_armed(QueueWakeups& queue, std::optional<std::uint32_t> reader) {
  if (taker_ != Taker::nobody) {
    is_any_armed_ = true;
    set_taker(Taker::engine);
  }
  if (reader) set_queue_waiter(queue, *reader);
}

/// The engine needs no entry that differs from the last one.
void WakeupPolicy::on_channel_read(std::uint32_t reader) {
  if (reader == Waiter::kEngine) return;
  for (auto* const queue : queues_) {
    if (queue->waiter == reader && queue->model->is_armed()) set_queue_waiter(*queue, reader);
  }
}

/// Responses that have come when nobody needed them are read at the next check, or at once for a
/// program that does not poll.
void WakeupPolicy::set_needs_responses(bool needs_responses) {
  if (needs_responses && !needs_responses_) {
    has_polled_ = true;
    must_read_ = is_absent_;
  }
  needs_responses_ = needs_responses;
  set_taker(taker_);
}

ipoib::TimePoint WakeupPolicy::start_checks(ipoib::TimePoint now) {
  if (std::exchange(must_read_, false)) return now;
  if (!needs_checks()) return ipoib::kNever;
  if (check_at_ == ipoib::kNever) check_at_ = next_check(now);
  return check_at_;
}

/// After it has made the engine the waiter, it lets the rings be read once more.
ipoib::TimePoint WakeupPolicy::check(ipoib::TimePoint now) {
  if (now < check_at_) return check_at_;
  if (!needs_checks()) return check_at_ = ipoib::kNever;
  if (!has_polled_.exchange(false)) {
    is_absent_ = true;
    if (taker_ == Taker::program) {
      after_completions_.on_absence();
      after_posting_.on_absence();
    }
    set_taker(Taker::engine);
  }
  return check_at_ = next_check(now);
}

void WakeupPolicy::set_queue_waiter(QueueWakeups& queue, std::uint32_t waiter) {
  queue.waiter = waiter;
  for (const Qpn qp : queue.receivers) set_(QpnLayout::index(qp), waiter);
  set_multicast_waiter();
}

/// A multicast packet may be for any queue pair, and the woken thread receives it for all of them.
/// This must be a thread that is sure to do so: the engine if it waits for any queue, else the
/// channel of an armed queue.
void WakeupPolicy::set_multicast_waiter() {
  bool is_engine = true;
  std::uint32_t waiter = Waiter::kNone;
  for (const auto* const queue : queues_) {
    if (queue->receivers.empty()) continue;
    is_engine = queue->waiter == Waiter::kEngine;
    if (is_engine) break;
    if (queue->model->is_armed()) waiter = queue->waiter;
  }
  set_(WakeupEntry::kMulticast, is_engine ? Waiter::kEngine : waiter);
}

bool WakeupPolicy::is_any_armed() const {
  return std::ranges::any_of(queues_, [](const auto* queue) { return queue->model->is_armed(); });
}

void WakeupPolicy::note_poll() {
  has_polled_ = true;
  if (std::exchange(is_absent_, false)) set_taker(taker_);
}

void WakeupPolicy::set_taker(Taker taker) {
  taker_ = taker;
  set_connection_waiter(WakeupEntry::kRequests, requests_, taker != Taker::program);
  set_connection_waiter(
      WakeupEntry::kResponses, responses_,
      taker == Taker::engine && (is_any_armed_ || (needs_responses_ && is_absent_)));
}

void WakeupPolicy::set_connection_waiter(std::size_t entry, std::uint32_t& current,
                                         bool is_engine) {
  const auto waiter = is_engine ? Waiter::kEngine : Waiter::kNone;
  if (std::exchange(current, waiter) != waiter) set_(entry, waiter);
}

}  // namespace softib::verbs
