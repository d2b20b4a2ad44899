// Receives datagrams for the queue pairs of an HCA. A datagram that has passed the checks is copied
// to the posted memory, and the receive completes.
//
// A large packet is delivered as a whole if its queue pair has a large receive posted; otherwise it
// is segmented first (LargePacket), and each segment is delivered like a packet.
//
// A receive with bad memory completes with an error and moves the queue pair to ERR (IBA 10.10.3.1,
// "completion error on the receive queue"): a local length error if its elements are too small for
// the message, a local protection error if the memory may not be written.
#pragma once

#include <infiniband/verbs.h>

#include "softib/core/packet_sink.hpp"
#include "softib/hca/admission.hpp"
#include "softib/hca/dependencies.hpp"
#include "softib/hca/multicast_table.hpp"
#include "softib/hca/queue_pair_table.hpp"

namespace softib::hca {

class DatagramReceiver {
 public:
  /// All must outlive the receiver.
  DatagramReceiver(const Dependencies& hca, const QueuePairTable& qps,
                   const MulticastTable& multicast)
      : hca_(hca), qps_(qps), multicast_(multicast), admission_(hca.ports, hca.counters) {}

  /// Takes a packet from the fabric. Returns false if it is no datagram.
  [[nodiscard]] bool receive(const ArrivedPacket& from);

 private:
  struct Incoming;
  [[nodiscard]] bool receive_large(const ArrivedPacket& from);
  void receive(const Incoming& arrival);
  void receive_unicast(const Incoming& arrival);
  void receive_multicast(const Incoming& arrival);
  void deliver(QueuePair& qp, const Incoming& arrival);
  [[nodiscard]] ibv_wc_status write(const QueuePair& qp, std::span<const ibv_sge> elements,
                                    const Incoming& arrival) const;

  const Dependencies& hca_;
  const QueuePairTable& qps_;
  const MulticastTable& multicast_;
  Admission admission_;
};

}  // namespace softib::hca
