// The shared receive queues and XRC domains of an HCA, and the messages that take receives from
// them.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "ipoib/result.hpp"
#include "softib/core/hca_ports.hpp"
#include "softib/hca/limits.hpp"
#include "softib/hca/object_table.hpp"
#include "softib/hca/shared_receive_queue.hpp"

namespace softib::hca {

class EventList;
class QueuePair;
class QueuePairTable;
struct HcaCounters;

class SharedReceives {
 public:
  /// `epoch` and `slot` are part of the numbers of the queues (QpnLayout); all references must
  /// outlive this object.
  SharedReceives(std::uint32_t epoch, std::uint32_t slot, const HcaPorts& ports,
                 const QueuePairTable& qps, EventList& events, HcaCounters& counters)
      : epoch_(epoch),
        slot_(slot),
        ports_(ports),
        qps_(qps),
        events_(events),
        counters_(counters) {}

  // Errors as in class Hca.
  /// Opens a domain. Fails with EAGAIN if no domain has this name, and with EINVAL if one has and
  /// `how` is exclusive.
  [[nodiscard]] ipoib::Result<XrcDomain*> open_domain(std::optional<XrcDomainName> name = {},
                                                      XrcDomainFlags how = {});
  /// Destroys the domain when it has been closed as often as it was opened.
  [[nodiscard]] ipoib::Result<void> close(XrcDomain& domain);
  [[nodiscard]] ipoib::Result<SharedReceiveQueue*> create(const SharedReceiveQueueConfig& config);
  [[nodiscard]] ipoib::Result<void> modify(SharedReceiveQueue& queue, const ibv_srq_attr& attr,
                                           int mask);
  /// Fails if queue pairs use it.
  [[nodiscard]] static ipoib::Result<void> may_destroy(const SharedReceiveQueue& queue);
  [[nodiscard]] ipoib::Result<void> destroy(SharedReceiveQueue& queue);
  /// Queues a chain. Returns 0, or an errno value with `*bad` at the first request not queued.
  static int post(SharedReceiveQueue& queue, ibv_recv_wr* chain, ibv_recv_wr** bad);

  /// The queue that requests to a queue pair of `domain` name by `number`, or null.
  [[nodiscard]] SharedReceiveQueue* find(std::uint32_t number, const XrcDomain* domain) const;
  [[nodiscard]] const auto& queues() const { return queues_; }
  /// Moves the oldest receive of the queue that a message uses to its queue pair. Returns false if
  /// there is none.
  [[nodiscard]] bool take(QueuePair& qp);

 private:
  const std::uint32_t epoch_;
  const std::uint32_t slot_;
  const HcaPorts& ports_;
  const QueuePairTable& qps_;
  EventList& events_;
  HcaCounters& counters_;
  ObjectTable<XrcDomain, kMaxXrcDomains> domains_;
  ObjectTable<SharedReceiveQueue, kMaxSharedReceiveQueues> queues_;
};

}  // namespace softib::hca
