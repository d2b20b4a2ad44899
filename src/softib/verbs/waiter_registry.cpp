#include "softib/verbs/waiter_registry.hpp"

#include <fcntl.h>

#include <algorithm>

#include "ipoib/monotonic_clock.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {

namespace {

std::uint32_t waiter_of(CompChannel& channel, endpoint::Endpoint& endpoint) {
  if ((::fcntl(channel.fd, F_GETFL) & O_NONBLOCK) == 0) return transport::Waiter::kEngine;
  if (channel.wakeup_fd == transport::Waiter::kEngine)
    channel.wakeup_fd = endpoint.add_wakeup_fd(channel.events.socket());
  return channel.wakeup_fd;
}

}  // namespace

void WaiterRegistry::add(Qpn qp, const Cq& receives) {
  endpoint_.set_waiter(QpnLayout::index(qp), receives.waiter);
  set_multicast_waiter();
}

void WaiterRegistry::remove(Qpn qp) {
  endpoint_.set_waiter(QpnLayout::index(qp), transport::Waiter::kEngine);
  set_multicast_waiter();
}

void WaiterRegistry::on_polled(Cq& cq) {
  if (!cq.model->is_armed() && cq.waiter != transport::Waiter::kNone) {
    set_waiter(cq, transport::Waiter::kNone);
  }
  if (attendance_ != Attendance::engine) return;
  habit_.on_empty_poll(ipoib::monotonic_now());
  if (is_any_armed()) return;
  attendance_ = Attendance::poller;
  has_polled_ = true;
  endpoint_.set_waiter(transport::WakeupEntry::kConnected, transport::Waiter::kNone);
}

bool WaiterRegistry::on_completions() {
  if (attendance_ == Attendance::nobody) return false;
  if (habit_.polls_on()) {
    has_polled_ = true;
    return false;
  }
  habit_.on_completions(ipoib::monotonic_now());
  return let_engine_attend();
}

void WaiterRegistry::add_connection() {
  if (connections_++ == 0) attendance_ = Attendance::engine;
}

void WaiterRegistry::remove_connection() {
  if (--connections_ != 0) return;
  (void)let_engine_attend();
  attendance_ = Attendance::nobody;
}

bool WaiterRegistry::let_engine_attend() {
  if (attendance_ != Attendance::poller) return false;
  attendance_ = Attendance::engine;
  endpoint_.set_waiter(transport::WakeupEntry::kConnected, transport::Waiter::kEngine);
  return true;
}

ipoib::TimePoint WaiterRegistry::start_checks() {
  if (check_at_ == ipoib::kNever) check_at_ = ipoib::monotonic_now() + kAttendanceCheck;
  return check_at_;
}

/// After it has made the engine the waiter, it lets the rings be read once more.
ipoib::TimePoint WaiterRegistry::check_attendance(ipoib::TimePoint now) {
  if (now < check_at_) return check_at_;
  const bool is_polled = attends_by_polling();
  if (!has_polled_.exchange(false)) {
    habit_.on_absence();
    (void)let_engine_attend();
  }
  return check_at_ = is_polled ? now + kAttendanceCheck : ipoib::kNever;
}

bool WaiterRegistry::is_any_armed() const {
  return std::ranges::any_of(all_, [](const Cq* cq) { return cq->model->is_armed(); });
}

void WaiterRegistry::on_armed(Cq& cq) {
  (void)let_engine_attend();
  if (cq.channel != nullptr) set_waiter(cq, waiter_of(of(cq.channel), endpoint_));
}

void WaiterRegistry::on_channel_read(const CompChannel& channel) {
  for (auto* const cq : all_) {
    if (cq->channel == &channel && cq->model->is_armed()) set_waiter(*cq, cq->waiter);
  }
}

void WaiterRegistry::set_waiter(Cq& cq, std::uint32_t waiter) {
  cq.waiter = waiter;
  for (const auto* const qp : cq.model->receivers) {
    endpoint_.set_waiter(QpnLayout::index(qp->number()), waiter);
  }
  set_multicast_waiter();
}

/// A multicast packet may be for any queue pair, and the woken thread receives it for all of them.
/// This must be a thread that is sure to do so: the engine if it waits for any queue, else the
/// channel of an armed queue.
void WaiterRegistry::set_multicast_waiter() {
  bool is_engine = true;
  std::uint32_t waiter = transport::Waiter::kNone;
  for (const auto* const cq : all_) {
    if (cq->model->receivers.empty()) continue;
    is_engine = cq->waiter == transport::Waiter::kEngine;
    if (is_engine) break;
    if (cq->model->is_armed()) waiter = cq->waiter;
  }
  endpoint_.set_waiter(transport::WakeupEntry::kMulticast,
                       is_engine ? transport::Waiter::kEngine : waiter);
}

}  // namespace softib::verbs
