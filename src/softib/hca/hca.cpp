// Objects of the emulated HCA, and the state changes of its queue pairs.
#include "softib/hca/hca.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>

#include "softib/hca/errors.hpp"
#include "softib/hca/route.hpp"

namespace softib::hca {

using ipoib::Error;
using ipoib::Result;

namespace {
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
/// Discards the completions of a queue pair. Those of an XRC target are in queues that do not
/// belong to it, and stay.
void discard_completions(const QueuePairConfig& config, const QueuePair& qp) {
  if (config.send_cq != nullptr) config.send_cq->discard(qp.number());
  if (config.receive_cq != nullptr) config.receive_cq->discard(qp.number());
}
std::uint32_t completion_capacity(std::uint32_t wanted) { return std::bit_ceil(wanted + 1) - 1; }
static_assert(std::has_single_bit(kMaxCqe + 1));
/// Inline data that a work request may have without asking for it: they fit where its elements
/// would be. rdma_rxe grants as much, and mlx4 and mlx5 more, so programs post short inline data
/// without asking for them.
std::uint32_t free_inline(const ibv_qp_cap& cap) {
  return std::min(kMaxInline, cap.max_send_sge * static_cast<std::uint32_t>(sizeof(ibv_sge)));
}
}  // namespace

Hca::Hca(std::uint32_t epoch, std::uint32_t slot, const HcaPorts& ports, OnDemandMemory* on_demand)
    : ports_(ports),
      memory_(on_demand),
      qps_(epoch, slot),
      shared_receives_(epoch, slot, ports_, qps_, events_, counters_) {}

Result<ProtectionDomain*> Hca::create_protection_domain() {
  if (has_failed()) return hca_failed();
  auto* const pd = pds_.add(std::make_unique<ProtectionDomain>());
  if (pd == nullptr) {
    return Error{ENOMEM,
                 "a process can have " + std::to_string(kMaxProtectionDomains) +
                     " protection domains on an HCA: use several HCAs (softib run --hca A,B)"};
  }
  return pd;
}

Result<void> Hca::destroy(ProtectionDomain& pd) {
  if (pd.users != 0) return Error{EBUSY, "the protection domain is in use"};
  pds_.remove(pd);
  return {};
}

Result<MemoryRegion> Hca::register_memory(ProtectionDomain& pd, void* memory, std::uint64_t length,
                                          std::uint64_t address, int access) {
  if (has_failed()) return hca_failed();
  return memory_.add(pd, memory, length, address, access);
}

Result<CompletionQueue*> Hca::create_completion_queue(std::uint32_t capacity, bool keeps_times) {
  if (has_failed()) return hca_failed();
  if (capacity == 0 || capacity > kMaxCqe) {
    return Error{
        EINVAL, "a completion queue has 1 to " + std::to_string(kMaxCqe) + " entries: use several"};
  }
  auto* const cq = cqs_.add(std::make_unique<CompletionQueue>(completion_capacity(capacity),
                                                              keeps_times ? &clock_ : nullptr));
  if (cq == nullptr) {
    return Error{ENOMEM,
                 "a process can have " + std::to_string(kMaxCompletionQueues) +
                     " completion queues on an HCA: use several HCAs (softib run --hca A,B)"};
  }
  return cq;
}

Result<void> Hca::resize(CompletionQueue& cq, std::uint32_t capacity) {
  if (capacity == 0 || capacity > kMaxCqe || !cq.resize(completion_capacity(capacity))) {
    return Error{EINVAL, "a completion queue must hold what is in it, and at most " +
                             std::to_string(kMaxCqe) + " entries"};
  }
  return {};
}

Result<void> Hca::may_destroy(const CompletionQueue& cq) {
  if (cq.users != 0) return Error{EBUSY, "queue pairs complete to the completion queue"};
  return {};
}

Result<void> Hca::destroy(CompletionQueue& cq) {
  if (auto may = may_destroy(cq); !may) return may;
  events_.discard(&cq);
  cqs_.remove(cq);
  return {};
}

Result<AddressHandle*> Hca::create_address_handle(ProtectionDomain& pd,
                                                  const ibv_ah_attr& attributes) {
  if (has_failed()) return hca_failed();
  if (!ports_.has(attributes.port_num)) return no_such_port();
  auto checked = check_route(attributes, ports_[attributes.port_num]);
  if (!checked) return checked.error();
  auto ah = std::make_unique<AddressHandle>();
  ah->attributes = attributes;
  ah->protection_domain = &pd;
  auto* const added = ahs_.add(std::move(ah));
  if (added == nullptr) {
    return Error{ENOMEM, "a process can have " + std::to_string(kMaxAddressHandles) +
                             " address handles on an HCA: use several HCAs (softib run --hca A,B)"};
  }
  ++pd.users;
  return added;
}

Result<void> Hca::destroy(AddressHandle& ah) {
  assert(ah.protection_domain->users != 0);
  --ah.protection_domain->users;
  ahs_.remove(ah);
  return {};
}

Result<QueuePair*> Hca::create_queue_pair(const QueuePairConfig& wanted) {
  if (has_failed()) return hca_failed();
  QueuePairConfig config = wanted;
  auto& cap = config.cap;
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
  if (qps_.is_full()) {
    return Error{ENOMEM, "a process can have " + std::to_string(kMaxQueuePairs) +
                             " queue pairs on an HCA: use several HCAs (softib run --hca A,B) or "
                             "processes"};
  }
  if (cap.max_send_wr != 0) cap.max_inline_data = std::max(cap.max_inline_data, free_inline(cap));
  auto& qp = qps_.add(config, dependencies_);
  change_users(config, [](auto& users) { ++users; });
  return &qp;
}

Result<void> Hca::retire(QueuePair& qp) {
  if (qp.attachments != 0) return Error{EBUSY, "the queue pair is attached to multicast groups"};
  const auto from = qp.state();
  qp.set_state(IBV_QPS_RESET);
  reset(qp);
  if (qp.is_connected()) connections_.change_state(qp.connection(), from);
  return {};
}

Result<void> Hca::destroy(QueuePair& qp) {
  if (auto retired = retire(qp); !retired) return retired;
  if (qp.is_connected()) connections_.remove(qp.connection());
  const auto& config = qp.config();
  events_.discard(&qp);
  change_users(config, [](auto& users) {
    assert(users != 0);
    --users;
  });
  qps_.remove(qp);
  return {};
}

Result<void> Hca::modify(QueuePair& qp, const ibv_qp_attr& attr, int mask) {
  if (has_failed()) return hca_failed();
  if ((mask & IBV_QP_PORT) != 0 && !ports_.has(attr.port_num)) return no_such_port();
  if (qp.apply(attr, mask) != 0) {
    return Error{EINVAL, "invalid transition, or attributes that it does not allow"};
  }
  if ((mask & IBV_QP_STATE) == 0) return {};
  const auto from = qp.state();
  if (attr.qp_state == IBV_QPS_ERR) {
    completions_.enter_error(qp);
  } else {
    qp.set_state(attr.qp_state);
  }
  if (attr.qp_state == IBV_QPS_RESET) reset(qp);
  if (qp.is_connected()) {
    connections_.change_state(qp.connection(), from);
  } else if (attr.qp_state == IBV_QPS_SQD && from != IBV_QPS_SQD && qp.notifies_drained()) {
    // Packets are handed out and completed together, so the queue is drained here.
    events_.raise(AsyncEvent{IBV_EVENT_SQ_DRAINED, nullptr, &qp});
  }
  return {};
}

Result<void> Hca::attach(QueuePair& qp, const Gid& group, Lid lid) {
  if (has_failed()) return hca_failed();
  if (qp.is_connected()) {
    return Error{
        EINVAL, "only a queue pair of datagrams (IBV_QPT_UD) can be attached to a multicast group"};
  }
  return multicast_.attach(qp, group, is_ethernet() ? kRoceMulticastLid : lid);
}

Result<void> Hca::detach(QueuePair& qp, const Gid& group, Lid lid) {
  return multicast_.detach(qp, group, is_ethernet() ? kRoceMulticastLid : lid);
}

int Hca::post_send(QueuePair& qp, ibv_send_wr* chain, ibv_send_wr** bad) {
  int error = 0;
  for (auto* wr = chain; wr != nullptr && error == 0; wr = wr->next) {
    error = qp.enqueue(*wr);
    if (error != 0) *bad = wr;
  }
  posted(qp);  // the requests before the bad one stay posted
  return error;
}

int Hca::post_send_all(QueuePair& qp, ibv_send_wr* chain) {
  const auto before = qp.sends().next_position();
  for (auto* wr = chain; wr != nullptr; wr = wr->next) {
    if (const int error = qp.enqueue(*wr)) {
      qp.sends().unpost_from(before);
      return error;
    }
  }
  posted(qp);
  return 0;
}

/// The datagrams of a queue pair wait for next_packets().
void Hca::posted(QueuePair& qp) {
  if (!qp.is_connected()) return;
  if (qp.is_flushing()) completions_.flush_sends(qp);
  connections_.posted(qp.connection());
}

int Hca::post_receive(QueuePair& qp, ibv_recv_wr* chain, ibv_recv_wr** bad, ReceiveKind kind) {
  int error = 0;
  for (auto* wr = chain; wr != nullptr && error == 0; wr = wr->next) {
    error = qp.enqueue(*wr, kind);
    if (error != 0) *bad = wr;
  }
  // The requests before the bad one stay posted.
  if (qp.state() == IBV_QPS_ERR) completions_.flush_receives(qp);
  return error;
}

std::span<const OutgoingPacket> Hca::next_packets(QueuePair& qp) {
  assert(!qp.is_connected());
  return qp.datagram().sender.next_packets();
}

void Hca::receive(const ArrivedPacket& from) {
  if (!ports_.has(from.port)) {
    counters_.at(1).drop_port += from.gso.packets;
    return;
  }
  if (!datagrams_.receive(from)) connections_.receive(from);
}

void Hca::set_port(const PortAttributes& now) {
  if (has_failed() || !ports_.has(now.number)) return;
  const PortAttributes before = ports_[now.number];
  for (const auto type : port_events(before, now)) {
    events_.raise(AsyncEvent{.type = type, .port = now.number});
  }
  if (!now.serves(before.generation)) return fail();
  for (const auto which : now.qp_errors.since(before.qp_errors)) {
    qps_.for_each([&](QueuePair& qp) {
      if (which == Qpn() || qp.number() == which) fail(qp);
    });
  }
  ports_.set(now);
}

/// Lets a queue pair fail as by a "Local Work Queue Catastrophic Error" (IBA 11.6.3.1). The peer
/// learns nothing. In RESET a queue pair does not work, so nothing fails.
void Hca::fail(QueuePair& qp) {
  if (qp.state() == IBV_QPS_RESET || qp.state() == IBV_QPS_ERR) return;
  ++counters_.at(qp.port()).qp_errors;
  const auto from = qp.state();
  events_.raise(AsyncEvent{IBV_EVENT_QP_FATAL, nullptr, &qp});
  completions_.enter_error(qp);
  if (qp.is_connected()) connections_.change_state(qp.connection(), from);
}

void Hca::fail() {
  const HcaPorts before = ports_;
  for (PortAttributes port : before.all()) {
    port.state = PortState::down;
    port.failed = true;
    ports_.set(port);
  }
  qps_.for_each([this](QueuePair& qp) { completions_.enter_error(qp); });
}

void Hca::reset(QueuePair& qp) {
  memory_.invalidate_windows_of(qp.number());
  discard_completions(qp.config(), qp);
  qp.reset();
}

}  // namespace softib::hca
