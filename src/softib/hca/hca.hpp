// The model of one HCA as one process sees it: objects, work requests, packets and events.
//
// It has no descriptor, clock or lock. Work requests and received packets come in as calls; events
// wait in a list. next_packets() returns datagrams to send in batches, without the caller's lock;
// connections() sends the packets of connections.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <span>

#include "softib/core/hca_ports.hpp"
#include "softib/core/object_list.hpp"
#include "softib/hca/connection/connections.hpp"
#include "softib/hca/counters.hpp"
#include "softib/hca/datagram/receiver.hpp"
#include "softib/hca/events.hpp"
#include "softib/hca/multicast_table.hpp"
#include "softib/hca/object_table.hpp"
#include "softib/hca/queue_pair_table.hpp"
#include "softib/hca/shared_receives.hpp"
#include "softib/hca/work_completion.hpp"

namespace softib::hca {

using ipoib::Result;

class Hca {
 public:
  /// `epoch` and `slot` are part of queue pair numbers; `on_demand`, if any, must outlive it.
  Hca(std::uint32_t epoch, std::uint32_t slot, const HcaPorts& ports,
      OnDemandMemory* on_demand = nullptr);
  Hca(const Hca&) = delete;
  Hca& operator=(const Hca&) = delete;

  // Objects live until they are destroyed, at the latest with the Hca. Errors are EBUSY (other
  // objects use it), ENOMEM (too many objects), EINVAL (invalid attributes) and EIO (the HCA has
  // failed).
  [[nodiscard]] Result<ProtectionDomain*> create_protection_domain();
  [[nodiscard]] Result<void> destroy(ProtectionDomain& pd);
  [[nodiscard]] Result<MemoryRegion> register_memory(ProtectionDomain& pd, void* memory,
                                                     std::uint64_t length, std::uint64_t address,
                                                     int access);
  [[nodiscard]] MemoryTable& memory() { return memory_; }  ///< for the rest
  /// With room for 2^N - 1 completions, `capacity` or more, as the adapters that programs are
  /// tested with have it.
  [[nodiscard]] Result<CompletionQueue*> create_completion_queue(std::uint32_t capacity,
                                                                 bool keeps_times = false);
  [[nodiscard]] Result<void> resize(CompletionQueue& cq, std::uint32_t capacity);
  /// Fails if queue pairs or shared receive queues complete to it.
  [[nodiscard]] static Result<void> may_destroy(const CompletionQueue& cq);
  [[nodiscard]] Result<void> destroy(CompletionQueue& cq);
  [[nodiscard]] Result<AddressHandle*> create_address_handle(ProtectionDomain& pd,
                                                             const ibv_ah_attr& attributes);
  [[nodiscard]] Result<void> destroy(AddressHandle& ah);
  [[nodiscard]] SharedReceives& shared_receives() { return shared_receives_; }

  /// Its capabilities may be larger than the wanted ones.
  [[nodiscard]] Result<QueuePair*> create_queue_pair(const QueuePairConfig& wanted);
  /// ibv_modify_qp. After a change to RTS, call next_packets() for datagrams posted meanwhile.
  [[nodiscard]] Result<void> modify(QueuePair& qp, const ibv_qp_attr& attr, int mask);
  /// The first part of destroy(): the queue pair is in RESET then, and raises no more events.
  [[nodiscard]] Result<void> retire(QueuePair& qp);
  [[nodiscard]] Result<void> destroy(QueuePair& qp);
  [[nodiscard]] Result<void> attach(QueuePair& qp, const Gid& group, Lid lid);
  [[nodiscard]] Result<void> detach(QueuePair& qp, const Gid& group, Lid lid);
  void detach_all(QueuePair& qp) { multicast_.detach_all(qp); }
  [[nodiscard]] std::vector<Gid> multicast_groups() const { return multicast_.groups(); }

  /// Queues a chain. Returns 0, or an errno value with `*bad` at the first request not queued. A
  /// connection sends the requests when it is served; for datagrams, call next_packets().
  int post_send(QueuePair& qp, ibv_send_wr* chain, ibv_send_wr** bad);
  int post_send_all(QueuePair& qp, ibv_send_wr* chain);  ///< the whole chain or nothing
  int post_receive(QueuePair& qp, ibv_recv_wr* chain, ibv_recv_wr** bad, ReceiveKind kind = {});
  /// Completes the sends of the previous batch and returns the next one, or nothing. It is valid
  /// until the next call for this queue pair or its destruction. Requires a queue pair of type UD.
  [[nodiscard]] std::span<const OutgoingPacket> next_packets(QueuePair& qp);
  [[nodiscard]] Connections& connections() { return connections_; }
  void receive(const ArrivedPacket& from);  ///< a packet from the fabric

  /// The event that a call of CompletionQueue::arm() has asked for at once.
  void raise_completion(CompletionQueue& cq) { events_.raise(CompletionEvent{&cq}); }
  /// Sets the attributes of one port, and raises events for changes. The HCA, or queue pairs, fail
  /// if they have failed in `now`.
  void set_port(const PortAttributes& now);
  [[nodiscard]] const HcaPorts& ports() const { return ports_; }
  [[nodiscard]] bool has_failed() const { return ports_.have_failed(); }
  [[nodiscard]] bool is_ethernet() const { return ports_.are_ethernet(); }
  [[nodiscard]] CompletionClock& clock() { return clock_; }
  [[nodiscard]] const HcaCounters& counters() const { return counters_; }
  /// The objects of a kind other than contexts.
  [[nodiscard]] ObjectPage objects(const ObjectRequest& request) const;
  [[nodiscard]] std::span<const HcaEvent> events() const {
    return events_.pending();
  }  ///< in order
  void clear_events() { events_.clear(); }

 private:
  void posted(QueuePair& qp);
  void reset(QueuePair& qp);
  void fail();
  void fail(QueuePair& qp);

  HcaPorts ports_;
  HcaCounters counters_;
  EventList events_{counters_};
  MemoryTable memory_;
  Completions completions_{events_, counters_};
  QueuePairTable qps_;
  SharedReceives shared_receives_;
  const Dependencies dependencies_{ports_,  memory_,          completions_,
                                   events_, shared_receives_, counters_};
  MulticastTable multicast_;
  ObjectTable<ProtectionDomain, kMaxProtectionDomains> pds_;
  CompletionClock clock_;
  ObjectTable<CompletionQueue, kMaxCompletionQueues> cqs_;
  ObjectTable<AddressHandle, kMaxAddressHandles> ahs_;
  Connections connections_{dependencies_, qps_};
  DatagramReceiver datagrams_{dependencies_, qps_, multicast_};
};

}  // namespace softib::hca
