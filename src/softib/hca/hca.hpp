// The model of one HCA as one process sees it: objects, work requests, packets and events.
//
// It has no descriptor, clock or lock. Work requests and received packets come in as calls; events
// wait in a list. next_packets() returns datagrams to send in batches, without the caller's lock.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "softib/hca/connections.hpp"
#include "softib/hca/counters.hpp"
#include "softib/hca/events.hpp"
#include "softib/hca/multicast_table.hpp"
#include "softib/hca/object_table.hpp"
#include "softib/hca/queue_pair.hpp"
#include "softib/hca/shared_receives.hpp"

namespace softib::hca {

using ipoib::Result;
class Hca {
 public:
  /// `epoch` and `slot` are part of queue pair numbers; `on_demand`, if any, must outlive it.
  Hca(std::uint32_t epoch, std::uint32_t slot, const PortAttributes& port,
      OnDemandMemory* on_demand = nullptr);
  // Objects live until they are destroyed, at the latest with the Hca. Errors: EBUSY: other objects
  // use it; ENOMEM: too many objects; EINVAL: invalid attributes; EIO: the HCA has failed.
  [[nodiscard]] Result<ProtectionDomain*> create_protection_domain();
  [[nodiscard]] Result<void> destroy(ProtectionDomain& pd);
  [[nodiscard]] Result<MemoryRegion> register_memory(ProtectionDomain& pd, void* memory,
                                                     std::uint64_t length, std::uint64_t address,
                                                     int access);
  [[nodiscard]] MemoryTable& memory() { return memory_; }  ///< for the rest
  [[nodiscard]] Result<CompletionQueue*> create_completion_queue(std::uint32_t capacity,
                                                                 bool keeps_times = false);
  [[nodiscard]] Result<void> resize(CompletionQueue& cq, std::uint32_t capacity);
  [[nodiscard]] Result<void> destroy(CompletionQueue& cq);
  [[nodiscard]] Result<AddressHandle*> create_address_handle(ProtectionDomain& pd,
                                                             const ibv_ah_attr& attributes);
  [[nodiscard]] Result<void> destroy(AddressHandle& ah);
  [[nodiscard]] Result<QueuePair*> create_queue_pair(const QueuePairConfig& config);
  /// ibv_modify_qp. After a change to RTS, call next_packets() for sends posted meanwhile.
  [[nodiscard]] Result<void> modify(QueuePair& qp, const ibv_qp_attr& attr, int mask);
  [[nodiscard]] Result<void> destroy(QueuePair& qp);
  [[nodiscard]] Result<void> attach(QueuePair& qp, const Gid& group, Lid lid);
  [[nodiscard]] Result<void> detach(QueuePair& qp, const Gid& group, Lid lid);
  void detach_all(QueuePair& qp) { multicast_.detach_all(qp); }
  /// Queues a chain. Returns 0, or an errno value with `*bad` at the first request not queued.
  int post_send(QueuePair& qp, ibv_send_wr* chain, ibv_send_wr** bad);
  int post_send_all(QueuePair& qp, ibv_send_wr* chain);  ///< the whole chain or nothing
  int post_receive(QueuePair& qp, ibv_recv_wr* chain, ibv_recv_wr** bad, ReceiveKind kind = {});
  /// Completes the sends of the previous batch and returns the next one, or nothing. It is valid
  /// until the next call for this queue pair or its destruction.
  [[nodiscard]] std::span<const OutgoingPacket> next_packets(QueuePair& qp);
  void receive(const ArrivedPacket& from);  ///< a packet from the fabric
  /// Raises events for changes. The HCA, or queue pairs, fail if they have failed in `now`.
  void set_port(const PortAttributes& now);
  [[nodiscard]] const PortAttributes& port() const { return port_; }
  [[nodiscard]] Connections& connections() { return connections_; }
  [[nodiscard]] CompletionClock& clock() { return clock_; }
  [[nodiscard]] SharedReceives& shared_receives() { return shared_receives_; }
  [[nodiscard]] const HcaCounters& counters() const { return counters_; }
  [[nodiscard]] std::span<const HcaEvent> events() const { return events_; }  ///< in order
  void clear_events() { events_.clear(); }

 private:
  friend class Connections;
  friend class SharedReceives;
  struct IncomingPacket;
  void receive_large(const ArrivedPacket& from);
  void receive_one(const IncomingPacket& arrival);
  void receive_unicast(const IncomingPacket& arrival);
  void receive_multicast(const IncomingPacket& arrival);
  [[nodiscard]] bool accepts(const QueuePair& qp, const IncomingPacket& arrival);
  [[nodiscard]] QueuePair* find(ipoib::Qpn number) const;
  void deliver(QueuePair& qp, const IncomingPacket& arrival);
  [[nodiscard]] ibv_wc_status scatter(QueuePair& qp, ReceiveQueue& to, const IncomingPacket& from);
  /// Collects the payload of the send at `position`. Returns the status to complete it with.
  [[nodiscard]] ibv_wc_status gather(QueuePair& qp, std::uint32_t position, OutgoingPacket& out);
  [[nodiscard]] ibv_wc_status gather_large(QueuePair& qp, std::uint32_t at, OutgoingPacket& out);
  [[nodiscard]] ibv_wc_status gather_elements(QueuePair& qp, std::uint32_t position,
                                              OutgoingPacket& out);
  [[nodiscard]] bool write_headers(QueuePair& qp, std::uint32_t position, OutgoingPacket& out);
  /// Pushes the completion at cq.next(), of the request of `queue` that was processed last.
  void complete(CompletionQueue& cq, QueuePair& qp, WorkProgress& queue, bool solicited);
  void complete_send(QueuePair& qp, ibv_wc_status status);
  void complete_in_flight(QueuePair& qp);
  void fail_send(QueuePair& qp, ibv_wc_status status);
  void flush_sends(QueuePair& qp);
  void flush_receives(QueuePair& qp);
  void enter_error(QueuePair& qp);
  void fail();
  void fail(QueuePair& qp);
  void reset(QueuePair& qp);
  void raise(const HcaEvent& event);
  void discard_events(const void* object);

  std::uint32_t epoch_;
  std::uint32_t slot_;
  PortAttributes port_;
  HcaCounters counters_;
  MemoryTable memory_;
  MulticastTable multicast_;
  ObjectTable<ProtectionDomain, kMaxProtectionDomains> pds_;
  CompletionClock clock_;
  ObjectTable<CompletionQueue, kMaxCompletionQueues> cqs_;
  ObjectTable<AddressHandle, kMaxAddressHandles> ahs_;
  std::array<std::unique_ptr<QueuePair>, kMaxQueuePairs> qps_;  ///< by QpnLayout::index
  std::uint32_t next_index_ = 0;
  std::size_t qp_count_ = 0;
  std::vector<HcaEvent> events_;
  Connections connections_{*this};
  SharedReceives shared_receives_{*this};
};

}  // namespace softib::hca
