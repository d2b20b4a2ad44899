// The sends of a queue pair of type UD. next_packets() makes packets of them, which are sent
// without the lock of the HCA; its next call completes them. Sends complete in the order of
// posting.
//
// A send with an error completes with that error after the sends before it, and moves the queue
// pair to SQE, which flushes the sends after it (IBA 10.10.3.1).
//
// A large send (IBV_WR_TSO) becomes one large packet that the receiver segments: see LargePacket.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "softib/hca/admission.hpp"
#include "softib/hca/dependencies.hpp"
#include "softib/hca/outbox.hpp"
#include "softib/hca/work_requests.hpp"
#include "wire/psn.hpp"

namespace softib::hca {

class QueuePair;

class DatagramSender {
 public:
  using Psn = ipoib::wire::Psn;

  /// Both must outlive the sender.
  DatagramSender(QueuePair& qp, const Dependencies& hca);

  /// Whether a work request with `length` bytes may be posted.
  [[nodiscard]] bool is_valid(const ibv_send_wr& wr, std::uint64_t length) const;
  /// Stores a work request at `position` of the send queue. Requires is_valid().
  void store(const ibv_send_wr& wr, std::uint32_t position);

  /// Completes the sends of the previous batch and returns the next one, or nothing. It is valid
  /// until the next call.
  [[nodiscard]] std::span<const OutgoingPacket> next_packets();
  /// Whether a batch is being sent.
  [[nodiscard]] bool has_in_flight() const { return in_flight_ != 0; }

  void start(Psn first) { next_psn_ = first; }
  [[nodiscard]] Psn next_psn() const { return next_psn_; }
  /// Forgets the batch that is being sent.
  void reset();

 private:
  [[nodiscard]] bool is_valid_large(const ibv_send_wr& wr, std::uint64_t length) const;
  /// Collects the payload of the send at `position`. Returns the status to complete it with.
  [[nodiscard]] ibv_wc_status gather_message(std::uint32_t position, OutgoingPacket& out);
  [[nodiscard]] ibv_wc_status gather_large(std::uint32_t position, OutgoingPacket& out);
  /// Returns false if the port drops the packet.
  [[nodiscard]] bool write_headers(std::uint32_t position, OutgoingPacket& out);
  void complete_in_flight();

  QueuePair& qp_;
  const Dependencies& hca_;
  Admission admission_;
  Psn next_psn_;
  Outbox outbox_;
  std::uint32_t in_flight_ = 0;  ///< sends in the batch
};

}  // namespace softib::hca
