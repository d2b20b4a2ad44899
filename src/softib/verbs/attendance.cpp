#include "softib/verbs/attendance.hpp"

#include <utility>

namespace softib::verbs {

using transport::Waiter;
using transport::WakeupEntry;

void Attendance::add_connection() {
  if (connections_++ == 0) attend(By::engine);
}

void Attendance::remove_connection() {
  if (--connections_ == 0) attend(By::nobody);
}

void Attendance::on_empty_poll(ipoib::TimePoint now, bool is_any_armed) {
  after_completions_.on_poll(now);
  after_posting_.on_poll(now);
  is_any_armed_ = is_any_armed;
  if (!is_any_armed) attend(By::polling);
}

void Attendance::on_posted(ipoib::TimePoint now, bool is_any_armed) {
  is_any_armed_ = is_any_armed;
  if (is_any_armed) return;
  if (after_posting_.polls_on()) {
    attend(By::polling);
  } else {
    after_posting_.expect_poll(now);
  }
}

bool Attendance::must_note_completions() {
  if (by_ == By::nobody) return false;
  if (!after_completions_.polls_on()) return true;
  has_polled_ = true;
  return false;
}

bool Attendance::on_completions(ipoib::TimePoint now) {
  after_posting_.on_poll(now);
  after_completions_.on_poll(now);
  after_completions_.expect_poll(now);
  return by_ == By::polling && attend(By::engine);
}

void Attendance::on_armed() {
  if (by_ == By::nobody) return;
  is_any_armed_ = true;
  attend(By::engine);
}

bool Attendance::set_needs_responses(bool needs_responses) {
  needs_responses_ = needs_responses;
  return attend(by_);
}

ipoib::TimePoint Attendance::start_checks(ipoib::TimePoint now) {
  if (check_at_ == ipoib::kNever) check_at_ = now + kAttendanceCheck;
  return check_at_;
}

/// After it has made the engine the waiter, it lets the rings be read once more.
ipoib::TimePoint Attendance::check(ipoib::TimePoint now) {
  if (now < check_at_) return check_at_;
  const bool was_by_polling = is_by_polling();
  if (was_by_polling && !has_polled_.exchange(false)) {
    after_completions_.on_absence();
    after_posting_.on_absence();
    attend(By::engine);
  }
  return check_at_ = was_by_polling ? now + kAttendanceCheck : ipoib::kNever;
}

bool Attendance::attend(By by) {
  if (by == By::polling && by_ != By::polling) has_polled_ = true;
  by_ = by;
  const bool requests = set(WakeupEntry::kRequests, requests_, by != By::polling);
  const bool responses = set(WakeupEntry::kResponses, responses_,
                             by == By::engine && (is_any_armed_ || needs_responses_));
  return requests || responses;
}

bool Attendance::set(std::size_t entry, std::uint32_t& current, bool is_engine) {
  const auto waiter = is_engine ? Waiter::kEngine : Waiter::kNone;
  if (std::exchange(current, waiter) == waiter) return false;
  set_(entry, waiter);
  return is_engine;
}

}  // namespace softib::verbs
