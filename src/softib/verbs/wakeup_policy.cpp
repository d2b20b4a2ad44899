#include "softib/verbs/wakeup_policy.hpp"

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

void WakeupPolicy::add_connection() {
  if (connections_++ == 0) set_taker(Taker::engine);
}

void WakeupPolicy::remove_connection() {
  if (--connections_ == 0) set_taker(Taker::nobody);
}

void WakeupPolicy::on_empty_poll(ipoib::TimePoint now, bool is_any_armed) {
  note_poll();
  after_completions_.on_poll(now);
  after_posting_.on_poll(now);
  is_any_armed_ = is_any_armed;
  if (!is_any_armed) set_taker(Taker::program);
}

void WakeupPolicy::begin_post(ipoib::TimePoint now, bool is_any_armed) {
  is_any_armed_ = is_any_armed;
  after_completions_.begin_call(now);
  if (is_any_armed) return;
  if (after_posting_.polls_on()) {
    has_polled_ = true;
    set_taker(Taker::program);
  } else {
    after_posting_.expect_poll(now);
  }
}

void WakeupPolicy::end_post(ipoib::TimePoint now) {
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

void WakeupPolicy::on_armed() {
  if (taker_ == Taker::nobody) return;
  is_any_armed_ = true;
  set_taker(Taker::engine);
}

/// Those that have come when nobody needed them are read at the next check, or at once for a
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
    if (program_takes()) {
      after_completions_.on_absence();
      after_posting_.on_absence();
    }
    set_taker(Taker::engine);
  }
  return check_at_ = next_check(now);
}

void WakeupPolicy::note_poll() {
  has_polled_ = true;
  if (std::exchange(is_absent_, false)) set_taker(taker_);
}

void WakeupPolicy::set_taker(Taker taker) {
  taker_ = taker;
  set(WakeupEntry::kRequests, requests_, taker != Taker::program);
  set(WakeupEntry::kResponses, responses_,
      taker == Taker::engine && (is_any_armed_ || (needs_responses_ && is_absent_)));
}

void WakeupPolicy::set(std::size_t entry, std::uint32_t& current, bool is_engine) {
  const auto waiter = is_engine ? Waiter::kEngine : Waiter::kNone;
  if (std::exchange(current, waiter) != waiter) set_(entry, waiter);
}

}  // namespace softib::verbs
