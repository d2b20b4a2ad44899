#include "softib/verbs/attendance.hpp"

#include <utility>

namespace softib::verbs {

using transport::Waiter;
using transport::WakeupEntry;

namespace {

/// The time of the next check, at a full millisecond, as the timers of connections.
ipoib::TimePoint next_check(ipoib::TimePoint now) {
  return std::chrono::floor<std::chrono::milliseconds>(now) + kAttendanceCheck;
}

}  // namespace

void Attendance::add_connection() {
  if (connections_++ == 0) attend(By::engine);
}

void Attendance::remove_connection() {
  if (--connections_ == 0) attend(By::nobody);
}

void Attendance::on_empty_poll(ipoib::TimePoint now, bool is_any_armed) {
  note_poll();
  after_completions_.on_poll(now);
  after_posting_.on_poll(now);
  is_any_armed_ = is_any_armed;
  if (!is_any_armed) attend(By::polling);
}

void Attendance::begin_post(ipoib::TimePoint now, bool is_any_armed) {
  is_any_armed_ = is_any_armed;
  after_completions_.begin_call(now);
  if (is_any_armed) return;
  if (after_posting_.polls_on()) {
    has_polled_ = true;
    attend(By::polling);
  } else {
    after_posting_.expect_poll(now);
  }
}

void Attendance::end_post(ipoib::TimePoint now) {
  after_completions_.end_call(now);
  after_posting_.end_call(now);
}

bool Attendance::must_note_completions() {
  if (by_ == By::nobody) return false;
  note_poll();
  return !after_completions_.polls_on();
}

bool Attendance::on_completions(ipoib::TimePoint now) {
  after_posting_.on_poll(now);
  after_completions_.on_poll(now);
  after_completions_.expect_poll(now);
  if (by_ != By::polling) return false;
  attend(By::engine);
  return true;
}

void Attendance::on_armed() {
  if (by_ == By::nobody) return;
  is_any_armed_ = true;
  attend(By::engine);
}

/// Those that have come when nobody needed them are read at the next check, or at once for a
/// program that does not poll.
void Attendance::set_needs_responses(bool needs_responses) {
  if (needs_responses && !needs_responses_) {
    has_polled_ = true;
    must_read_ = is_absent_;
  }
  needs_responses_ = needs_responses;
  attend(by_);
}

ipoib::TimePoint Attendance::start_checks(ipoib::TimePoint now) {
  if (std::exchange(must_read_, false)) return now;
  if (!needs_checks()) return ipoib::kNever;
  if (check_at_ == ipoib::kNever) check_at_ = next_check(now);
  return check_at_;
}

/// After it has made the engine the waiter, it lets the rings be read once more.
ipoib::TimePoint Attendance::check(ipoib::TimePoint now) {
  if (now < check_at_) return check_at_;
  if (!needs_checks()) return check_at_ = ipoib::kNever;
  if (!has_polled_.exchange(false)) {
    is_absent_ = true;
    if (is_by_polling()) {
      after_completions_.on_absence();
      after_posting_.on_absence();
    }
    attend(By::engine);
  }
  return check_at_ = next_check(now);
}

void Attendance::note_poll() {
  has_polled_ = true;
  if (std::exchange(is_absent_, false)) attend(by_);
}

void Attendance::attend(By by) {
  by_ = by;
  set(WakeupEntry::kRequests, requests_, by != By::polling);
  set(WakeupEntry::kResponses, responses_,
      by == By::engine && (is_any_armed_ || (needs_responses_ && is_absent_)));
}

void Attendance::set(std::size_t entry, std::uint32_t& current, bool is_engine) {
  const auto waiter = is_engine ? Waiter::kEngine : Waiter::kNone;
  if (std::exchange(current, waiter) != waiter) set_(entry, waiter);
}

}  // namespace softib::verbs
