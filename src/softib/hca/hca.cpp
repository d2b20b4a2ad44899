// Objects of the emulated HCA, and its state changes. Datagrams are sent in send.cpp and received
// in receive.cpp.
#include "softib/hca/hca.hpp"

#include <algorithm>
#include <cerrno>

namespace softib::hca {

using ipoib::Error;
using ipoib::Result;

namespace {
Error hca_failed() { return Error{EIO, "the HCA has failed"}; }
Error no_such_port() { return Error{EINVAL, "no such port"}; }
/// Whether all objects are there that a queue pair of this type needs.
bool has_objects(const QueuePairConfig& config) {
  if (config.type == IBV_QPT_XRC_RECV) return config.domain != nullptr;
  if (config.pd == nullptr || config.send_cq == nullptr || config.domain != nullptr) return false;
  if (config.type == IBV_QPT_XRC_SEND) return config.shared == nullptr;
  return config.receive_cq != nullptr &&
         (config.shared == nullptr || config.shared->config().domain == nullptr);
}
/// Calls change() for the number of users of each object of a queue pair.
template <class Change>
void change_users(const QueuePairConfig& config, Change change) {
  const auto change_one = [&](auto* object) {
    if (object != nullptr) change(object->users);
  };
  change_one(config.pd);
  change_one(config.send_cq);
  change_one(config.receive_cq);
  change_one(config.shared);
  change_one(config.domain);
}
/// Those of an XRC target are in queues that do not belong to it, and stay.
void discard_completions(const QueuePairConfig& config, const QueuePair& qp) {
  if (config.send_cq != nullptr) config.send_cq->discard(qp);
  if (config.receive_cq != nullptr) config.receive_cq->discard(qp);
}
/// Whether the HCA whose last port is `port` has a port `number`.
bool is_port(unsigned number, const PortAttributes& port) {
  return number > 0 && number <= port.number;
}
}  // namespace

Hca::Hca(std::uint32_t epoch, std::uint32_t slot, const PortAttributes& port,
         OnDemandMemory* on_demand)
    : epoch_(epoch), slot_(slot), port_(port), memory_(on_demand) {}

Result<ProtectionDomain*> Hca::create_protection_domain() {
  if (port_.failed) return hca_failed();
  auto* const pd = pds_.add(std::make_unique<ProtectionDomain>());
  if (pd == nullptr) return Error{ENOMEM, "too many protection domains"};
  return pd;
}

Result<void> Hca::destroy(ProtectionDomain& pd) {
  if (pd.users != 0) return Error{EBUSY, "the protection domain is in use"};
  pds_.remove(pd);
  return {};
}

Result<MemoryRegion> Hca::register_memory(ProtectionDomain& pd, void* memory, std::uint64_t length,
                                          std::uint64_t address, int access) {
  if (port_.failed) return hca_failed();
  return memory_.add(pd, memory, length, address, access);
}

Result<CompletionQueue*> Hca::create_completion_queue(std::uint32_t capacity, bool keeps_times) {
  if (port_.failed) return hca_failed();
  if (capacity == 0 || capacity > kMaxCqe) {
    return Error{EINVAL, "a completion queue has 1 to kMaxCqe entries"};
  }
  auto* const cq =
      cqs_.add(std::make_unique<CompletionQueue>(capacity, keeps_times ? &clock_ : nullptr));
  if (cq == nullptr) return Error{ENOMEM, "too many completion queues"};
  return cq;
}

Result<void> Hca::resize(CompletionQueue& cq, std::uint32_t capacity) {
  if (capacity == 0 || capacity > kMaxCqe || !cq.resize(capacity)) {
    return Error{EINVAL, "a completion queue must hold what is in it, and at most kMaxCqe entries"};
  }
  return {};
}

Result<void> Hca::destroy(CompletionQueue& cq) {
  if (cq.users != 0) return Error{EBUSY, "queue pairs complete to the completion queue"};
  discard_events(&cq);
  cqs_.remove(cq);
  return {};
}

Result<AddressHandle*> Hca::create_address_handle(ProtectionDomain& pd,
                                                  const ibv_ah_attr& attributes) {
  if (port_.failed) return hca_failed();
  if (!is_port(attributes.port_num, port_)) return no_such_port();
  // As rdma_check_ah_attr() of the kernel.
  if (attributes.is_global == 0 && port_.grh_required) {
    return Error{EINVAL, "the port requires a GRH"};
  }
  if (attributes.is_global != 0 && attributes.grh.sgid_index >= kGidTableSize) {
    return Error{EINVAL, "no such entry in the GID table"};
  }
  auto ah = std::make_unique<AddressHandle>();
  ah->attributes = attributes;
  ah->protection_domain = &pd;
  auto* const added = ahs_.add(std::move(ah));
  if (added == nullptr) return Error{ENOMEM, "too many address handles"};
  ++pd.users;
  return added;
}

Result<void> Hca::destroy(AddressHandle& ah) {
  --ah.protection_domain->users;
  ahs_.remove(ah);
  return {};
}

Result<QueuePair*> Hca::create_queue_pair(const QueuePairConfig& config) {
  if (port_.failed) return hca_failed();
  const auto& cap = config.cap;
  if (!has_objects(config)) {
    return Error{EINVAL,
                 "a queue pair needs a protection domain and completion queues, or an XRC "
                 "domain"};
  }
  if (cap.max_send_wr > kMaxQueueWr || cap.max_recv_wr > kMaxQueueWr ||
      cap.max_send_sge > kMaxSge || cap.max_recv_sge > kMaxSge ||
      cap.max_inline_data > kMaxInline || config.max_tso_header > kMaxTsoHeader) {
    return Error{EINVAL,
                 "work requests, scatter elements, inline data or headers exceed the HCA's limits"};
  }
  if (qp_count_ == kMaxQueuePairs) return Error{ENOMEM, "too many queue pairs"};
  // Indices are allocated round-robin, so that a number is not reused soon.
  while (qps_[next_index_] != nullptr) next_index_ = (next_index_ + 1) % kMaxQueuePairs;
  auto& slot = qps_[next_index_];
  slot = std::make_unique<QueuePair>(QpnLayout::make(epoch_, slot_, next_index_), config);
  next_index_ = (next_index_ + 1) % kMaxQueuePairs;
  ++qp_count_;
  change_users(config, [](auto& users) { ++users; });
  if (!slot->is_connected()) config.receive_cq->receivers.push_back(slot.get());
  return slot.get();
}

Result<void> Hca::destroy(QueuePair& qp) {
  if (qp.attachments != 0) return Error{EBUSY, "the queue pair is attached to multicast groups"};
  if (qp.is_connected()) connections_.remove(qp);
  memory_.invalidate_windows_of(qp.number());
  const auto& config = qp.config();
  discard_completions(config, qp);
  discard_events(&qp);
  change_users(config, [](auto& users) { --users; });
  if (!qp.is_connected()) std::erase(config.receive_cq->receivers, &qp);
  qps_[QpnLayout::index(qp.number())].reset();
  --qp_count_;
  return {};
}

Result<void> Hca::modify(QueuePair& qp, const ibv_qp_attr& attr, int mask) {
  if (port_.failed) return hca_failed();
  if ((mask & IBV_QP_PORT) != 0 && !is_port(attr.port_num, port_)) return no_such_port();
  const bool is_valid = !qp.is_connected() || are_valid_connection_attributes(attr, mask, port_);
  if (!is_valid || qp.apply(attr, mask) != 0) {
    return Error{EINVAL, "invalid transition, or attributes that it does not allow"};
  }
  if ((mask & IBV_QP_STATE) == 0) return {};
  const auto from = qp.state_;
  if (attr.qp_state == IBV_QPS_ERR) {
    enter_error(qp);
  } else {
    qp.state_ = attr.qp_state;
  }
  if (attr.qp_state == IBV_QPS_RESET) {
    reset(qp);
  } else if (!qp.is_connected() && attr.qp_state == IBV_QPS_SQD && from != IBV_QPS_SQD &&
             qp.notify_drained_) {
    // Packets are handed out and completed together, so the queue is drained here.
    raise(AsyncEvent{IBV_EVENT_SQ_DRAINED, nullptr, &qp});
  }
  if (qp.is_connected()) connections_.change_state(qp, from);
  return {};
}

Result<void> Hca::attach(QueuePair& qp, const Gid& group, Lid lid) {
  if (port_.failed) return hca_failed();
  if (qp.is_connected()) return Error{EINVAL, "only datagrams have multicast groups"};
  return multicast_.attach(qp, group, lid);
}

Result<void> Hca::detach(QueuePair& qp, const Gid& group, Lid lid) {
  return multicast_.detach(qp, group, lid);
}

void Hca::set_port(const PortAttributes& now) {
  if (port_.failed) return;
  for (const auto type : port_events(port_, now)) raise(AsyncEvent{type});
  if (!now.serves(port_.generation)) return fail();
  for (const auto which : now.qp_errors.since(port_.qp_errors)) {
    for (const auto& qp : qps_) {
      if (qp != nullptr && (which == Qpn() || qp->number() == which)) fail(*qp);
    }
  }
  port_ = now;
}

/// As by a "Local Work Queue Catastrophic Error" (IBA 11.6.3.1). The peer learns nothing. In RESET
/// a queue pair does not work, so nothing fails.
void Hca::fail(QueuePair& qp) {
  if (qp.state_ == IBV_QPS_RESET || qp.state_ == IBV_QPS_ERR) return;
  ++counters_.qp_errors;
  const auto from = qp.state_;
  raise(AsyncEvent{IBV_EVENT_QP_FATAL, nullptr, &qp});
  enter_error(qp);
  if (qp.is_connected()) connections_.change_state(qp, from);
}

void Hca::fail() {
  port_.state = PortState::down;
  port_.failed = true;
  for (const auto& qp : qps_) {
    if (qp != nullptr) enter_error(*qp);
  }
}

void Hca::reset(QueuePair& qp) {
  memory_.invalidate_windows_of(qp.number());
  discard_completions(qp.config_, qp);
  if (qp.is_xrc_target()) qp.shared_ = nullptr;
  qp.sends_.clear();
  qp.receives_.clear();
  qp.large_receives_.reset();
  qp.in_flight_ = 0;
  qp.qkey_ = {};
  qp.port_ = 0;
  qp.pkey_index_ = 0;
  qp.send_psn_ = {};
  qp.notify_drained_ = false;
}

/// The receives that other queue pairs share stay in their queue. This one takes no more of them,
/// which the program learns by an event (IBA 11.6.3.2, "Last WQE Reached").
void Hca::enter_error(QueuePair& qp) {
  const bool was_in_error = qp.state_ == IBV_QPS_ERR;
  qp.state_ = IBV_QPS_ERR;
  flush_receives(qp);
  flush_sends(qp);
  if (qp.config_.shared != nullptr && !was_in_error) {
    raise(AsyncEvent{IBV_EVENT_QP_LAST_WQE_REACHED, nullptr, &qp});
  }
}

void Hca::complete(CompletionQueue& cq, QueuePair& qp, WorkProgress& queue, bool solicited) {
  const auto pushed =
      cq.push(qp.is_xrc_target() ? nullptr : &queue, queue.processed() - 1, solicited);
  if (pushed == CompletionQueue::PushResult::stored) return;
  if (pushed == CompletionQueue::PushResult::stored_and_notify) return raise(CompletionEvent{&cq});
  // "CQ Error ... Local Work Queue Catastrophic Error" (IBA 11.6.3.1): the completion queue stays
  // in error, and each queue pair that completes to it goes into ERR.
  if (pushed == CompletionQueue::PushResult::overrun) {
    ++counters_.cq_overruns;
    raise(AsyncEvent{IBV_EVENT_CQ_ERR, &cq});
  }
  if (qp.state_ == IBV_QPS_ERR) return;
  raise(AsyncEvent{IBV_EVENT_QP_FATAL, nullptr, &qp});
  enter_error(qp);
}

void Hca::discard_events(const void* object) {
  std::erase_if(events_, [&](const HcaEvent& event) {
    if (const auto* const async = std::get_if<AsyncEvent>(&event)) {
      return async->cq == object || async->qp == object || async->shared == object;
    }
    return std::get<CompletionEvent>(event).cq == object;
  });
}

void Hca::raise(const HcaEvent& event) {
  if (events_.size() == kMaxPendingEvents) {
    ++counters_.lost_events;
    return;
  }
  events_.push_back(event);
}

}  // namespace softib::hca
