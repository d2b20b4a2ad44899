#include "softib/hca/shared_receives.hpp"

#include <cerrno>

#include "softib/hca/counters.hpp"
#include "softib/hca/errors.hpp"
#include "softib/hca/events.hpp"
#include "softib/hca/queue_pair_table.hpp"

namespace softib::hca {

using ipoib::Error;
using ipoib::Result;

Result<XrcDomain*> SharedReceives::open_domain(std::optional<XrcDomainName> name,
                                               XrcDomainFlags how) {
  if (ports_.have_failed()) return hca_failed();
  auto* domain =
      name ? domains_.find_if([&](const auto& each) { return each.name == name; }) : nullptr;
  if (domain != nullptr && how.exclusive)
    return Error{EINVAL, "the XRC domain of this file exists: open it without O_EXCL"};
  if (domain == nullptr) {
    if (name && !how.create)
      return Error{EAGAIN, "this file has no XRC domain: create it with O_CREAT"};
    domain = domains_.add(std::make_unique<XrcDomain>());
    if (domain == nullptr) {
      return Error{ENOMEM, "a process can have " + std::to_string(kMaxXrcDomains) +
                               " XRC domains on an HCA: close some"};
    }
    domain->name = name;
  }
  ++domain->opened;
  return domain;
}

Result<void> SharedReceives::close(XrcDomain& domain) {
  if (domain.opened == 1 && domain.users != 0)
    return Error{EBUSY, "queues and queue pairs use the XRC domain: destroy them before"};
  if (--domain.opened == 0) domains_.remove(domain);
  return {};
}

Result<SharedReceiveQueue*> SharedReceives::create(const SharedReceiveQueueConfig& config) {
  if (ports_.have_failed()) return hca_failed();
  const auto& attr = config.attributes;
  if (config.pd == nullptr || (config.domain == nullptr) != (config.cq == nullptr)) {
    return Error{EINVAL,
                 "a shared receive queue needs a protection domain, and one of XRC a domain and a "
                 "completion queue"};
  }
  if (attr.max_wr == 0 || attr.max_wr > kMaxQueueWr || attr.max_sge > kMaxSge ||
      attr.srq_limit > attr.max_wr) {
    return Error{EINVAL, "work requests, scatter elements or the limit exceed the HCA's limits"};
  }
  auto* const queue = queues_.add(std::make_unique<SharedReceiveQueue>(config));
  if (queue == nullptr) {
    return Error{ENOMEM,
                 "a process can have " + std::to_string(kMaxSharedReceiveQueues) +
                     " shared receive queues on an HCA: use several HCAs (softib run --hca A,B)"};
  }
  queue->number = QpnLayout::make(epoch_, slot_, queue->handle).value();
  ++config.pd->users;
  if (config.domain != nullptr) {
    ++config.domain->users;
    ++config.cq->users;
  }
  return queue;
}

Result<void> SharedReceives::modify(SharedReceiveQueue& queue, const ibv_srq_attr& attr, int mask) {
  if (ports_.have_failed()) return hca_failed();
  if (queue.modify(attr, mask)) return {};
  return Error{EINVAL, "a shared receive queue must hold what is in it, and its limit"};
}

Result<void> SharedReceives::may_destroy(const SharedReceiveQueue& queue) {
  if (queue.users != 0)
    return Error{EBUSY, "queue pairs use the shared receive queue: destroy them before"};
  return {};
}

/// Destroys a queue. A message that has taken a receive from a queue of XRC loses it, and its next
/// packet is refused.
Result<void> SharedReceives::destroy(SharedReceiveQueue& queue) {
  if (auto may = may_destroy(queue); !may) return may;
  qps_.for_each([&](QueuePair& qp) {
    if (qp.shared() != &queue) return;
    qp.receives().clear();
    qp.set_shared(nullptr);
  });
  events_.discard(&queue);
  const auto& config = queue.config();
  --config.pd->users;
  if (config.domain != nullptr) {
    --config.domain->users;
    --config.cq->users;
  }
  queues_.remove(queue);
  return {};
}

SharedReceiveQueue* SharedReceives::find(std::uint32_t number, const XrcDomain* domain) const {
  auto* const queue = queues_.find(QpnLayout::index(Qpn(number)));
  if (queue == nullptr || queue->number != number) return nullptr;
  return queue->config().domain == domain ? queue : nullptr;
}

int SharedReceives::post(SharedReceiveQueue& queue, ibv_recv_wr* chain, ibv_recv_wr** bad) {
  for (auto* wr = chain; wr != nullptr; wr = wr->next) {
    if (const int error = queue.enqueue(*wr)) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

bool SharedReceives::take(QueuePair& qp) {
  auto* const shared = qp.shared();
  if (shared == nullptr || shared->waiting() == 0) return false;
  if (shared->move_oldest_to(qp.receives())) {
    ++counters_.at(qp.port()).shared_limits;
    events_.raise(AsyncEvent{IBV_EVENT_SRQ_LIMIT_REACHED, nullptr, nullptr, shared});
  }
  return true;
}

}  // namespace softib::hca
