// The model of one HCA as one process sees it: objects, work, packets and events as values.
//
// No descriptor, no clock, no lock. Work requests and packets come in as calls. Packets to be sent
// are handed out in batches by next_packets(), since whoever carries them may want to do so without
// the lock that guards the model; completions wait in completion queues, events in a list.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "softib/hca/hca_counters.hpp"
#include "softib/hca/hca_events.hpp"
#include "softib/hca/hca_multicast.hpp"
#include "softib/hca/object_table.hpp"
#include "softib/hca/queue_pair.hpp"

namespace softib::hca {

class Hca {
 public:
  template <class T>
  using Result = ipoib::Result<T>;
  /// The first two go into the numbers of its queue pairs.
  Hca(std::uint32_t epoch, std::uint32_t place, const PortAttributes& port);

  // Objects live until they are destroyed, at the latest with the Hca. EBUSY: others use it;
  // ENOMEM: beyond its bound; EINVAL: bad attributes; EIO: the HCA has failed.
  [[nodiscard]] Result<ProtectionDomain*> create_protection_domain();
  [[nodiscard]] Result<void> destroy(ProtectionDomain& pd);
  [[nodiscard]] Result<MemoryRegion> register_memory(ProtectionDomain& pd, void* memory,
                                                     std::uint64_t length, std::uint64_t address,
                                                     int access);
  [[nodiscard]] Result<void> reregister_memory(std::uint32_t key, const RegionChange& change);
  [[nodiscard]] Result<void> deregister_memory(std::uint32_t key);
  [[nodiscard]] Result<CompletionQueue*> create_completion_queue(std::uint32_t capacity);
  [[nodiscard]] Result<void> resize(CompletionQueue& cq, std::uint32_t capacity);
  [[nodiscard]] Result<void> destroy(CompletionQueue& cq);
  [[nodiscard]] Result<AddressHandle*> create_address_handle(ProtectionDomain& pd,
                                                             const ibv_ah_attr& attributes);
  [[nodiscard]] Result<void> destroy(AddressHandle& ah);
  [[nodiscard]] Result<QueuePair*> create_queue_pair(const QueuePairConfig& config);
  /// ibv_modify_qp. Back in RTS, what was posted meanwhile waits for next_packets().
  [[nodiscard]] Result<void> modify(QueuePair& qp, const ibv_qp_attr& attr, int mask);
  [[nodiscard]] Result<void> destroy(QueuePair& qp);
  [[nodiscard]] Result<void> attach(QueuePair& qp, const Gid& group, Lid lid);
  [[nodiscard]] Result<void> detach(QueuePair& qp, const Gid& group, Lid lid);
  void detach_all(QueuePair& qp) { multicast_.detach_all(qp); }

  /// Queue a chain: 0, or an errno value with `*bad` at the first request that was not queued.
  int post_send(QueuePair& qp, ibv_send_wr* chain, ibv_send_wr** bad);
  /// The same, but all of the chain or nothing.
  int post_send_all(QueuePair& qp, ibv_send_wr* chain);
  int post_receive(QueuePair& qp, ibv_recv_wr* chain, ibv_recv_wr** bad, ReceiveKind kind = {});
  /// Completes the sends of the batch before, and hands out the next one, which is valid until the
  /// next call for this queue pair, or its end. Empty: there is nothing to send.
  [[nodiscard]] std::span<const OutgoingPacket> next_packets(QueuePair& qp);

  void receive(const ArrivedPacket& from);  ///< what has come from the fabric
  /// What the SM has made of the port; the difference is told as events. Of another life of the
  /// HCA: this one has failed for good, and so have all queue pairs.
  void set_port(const PortAttributes& now);
  [[nodiscard]] const PortAttributes& port() const { return port_; }
  [[nodiscard]] const HcaCounters& counters() const { return counters_; }
  /// Events since the last clear_events(), oldest first.
  [[nodiscard]] std::span<const HcaEvent> events() const { return events_; }
  void clear_events() { events_.clear(); }

 private:
  struct Arrival;  ///< a packet on its way in
  void receive_large(const ArrivedPacket& from);
  void receive_one(const Arrival& arrival);
  void receive_unicast(const Arrival& arrival);
  void receive_multicast(const Arrival& arrival);
  [[nodiscard]] bool accepts(const QueuePair& qp, const Arrival& arrival);
  [[nodiscard]] QueuePair* find(ipoib::Qpn number) const;
  void deliver(QueuePair& qp, const Arrival& arrival);
  [[nodiscard]] ibv_wc_status scatter(QueuePair& qp, ReceiveQueue& queue, const Arrival& from);
  /// The octets of a send; its headers, false when nothing is let out.
  [[nodiscard]] ibv_wc_status gather(QueuePair& qp, std::uint32_t position, OutgoingPacket& out);
  [[nodiscard]] bool address(QueuePair& qp, std::uint32_t position, OutgoingPacket& out);
  /// What has been written at cq.next(), of the last request of `queue` that was processed.
  void complete(CompletionQueue& cq, QueuePair& qp, WorkProgress& queue, bool solicited);
  void complete_send(QueuePair& qp, ibv_wc_status status);
  void complete_in_flight(QueuePair& qp);
  void fail_send(QueuePair& qp, ibv_wc_status status);
  void flush_sends(QueuePair& qp);
  void flush_receives(QueuePair& qp);
  void enter_error(QueuePair& qp);
  void fail();
  void reset(QueuePair& qp);
  void raise(const HcaEvent& event);
  void forget_events(const void* object);

  std::uint32_t epoch_;
  std::uint32_t place_;
  PortAttributes port_;
  HcaCounters counters_;
  MemoryTable memory_;
  MulticastTable multicast_;
  ObjectTable<ProtectionDomain, kMaxProtectionDomains> domains_;
  ObjectTable<CompletionQueue, kMaxCompletionQueues> cqs_;
  ObjectTable<AddressHandle, kMaxAddressHandles> ahs_;
  std::array<std::unique_ptr<QueuePair>, kMaxQueuePairs> qps_;  ///< by QpnLayout::index
  std::uint32_t next_index_ = 0;
  std::size_t qp_count_ = 0;
  std::vector<HcaEvent> events_;
};

/// Sends all that a queue pair has to send, for those who need no lock.
inline void transmit(Hca& hca, QueuePair& qp, PacketSink& sink) {
  for (auto batch = hca.next_packets(qp); !batch.empty(); batch = hca.next_packets(qp)) {
    sink.send(batch);
  }
}

}  // namespace softib::hca
