#include "softib/verbs/waiter_registry.hpp"

#include <fcntl.h>

#include <algorithm>

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
  if (!policy_.engine_takes()) return;
  policy_.on_empty_poll(ipoib::monotonic_now(), is_any_armed());
}

void WaiterRegistry::begin_post() {
  if (!policy_.engine_takes()) return;
  policy_.begin_post(ipoib::monotonic_now(), is_any_armed());
}

void WaiterRegistry::end_post() {
  if (policy_.engine_takes()) policy_.end_post(ipoib::monotonic_now());
}

bool WaiterRegistry::is_any_armed() const {
  return std::ranges::any_of(all_, [](const Cq* cq) { return cq->model->is_armed(); });
}

void WaiterRegistry::on_armed(Cq& cq) {
  policy_.on_armed();
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
