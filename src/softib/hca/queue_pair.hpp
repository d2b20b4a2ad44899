// A queue pair of the unreliable-datagram service (IBA 10.2.4, 10.3.1): its state, its attributes
// and its two queues. What happens to packets is in the Hca; see hca.hpp.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/hca/completion_queue.hpp"
#include "softib/hca/hca_limits.hpp"
#include "softib/hca/hca_memory.hpp"
#include "softib/hca/work_queue.hpp"
#include "softib/hca/work_requests.hpp"

namespace softib::hca {

struct QueuePairConfig {
  ProtectionDomain* pd = nullptr;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  ibv_qp_cap cap{};
  std::uint32_t max_tso_header = 0;   ///< octets; 0: no large sends
  bool signal_all = false;            ///< sq_sig_all
  bool block_self_multicast = false;  ///< IBV_QP_CREATE_BLOCK_SELF_MCAST_LB
};

/// Whether the transition is one of UD's and `mask` is made of what it requires and allows, which
/// is what ibv_modify_qp(3) has in its tables (IBA 11.2.5.2).
[[nodiscard]] bool is_ud_transition(ibv_qp_state from, ibv_qp_state to, int mask);

class QueuePair {
 public:
  QueuePair(Qpn number, const QueuePairConfig& config);

  [[nodiscard]] Qpn number() const { return number_; }
  [[nodiscard]] ibv_qp_state state() const { return state_; }
  [[nodiscard]] const QueuePairConfig& config() const { return config_; }
  [[nodiscard]] QKey qkey() const { return qkey_; }
  [[nodiscard]] std::uint16_t pkey_index() const { return pkey_index_; }
  /// Of the next packet, 24 bits.
  [[nodiscard]] bool receives() const {
    return state_ != IBV_QPS_RESET && state_ != IBV_QPS_INIT && state_ != IBV_QPS_ERR;
  }
  /// All that ibv_query_qp reports.
  [[nodiscard]] ibv_qp_attr attributes() const;

  /// EINVAL for a wrong mask or value; 0 or ENOMEM for a request that was or was not queued.
  int enqueue(const ibv_send_wr& request);
  int enqueue(const ibv_recv_wr& request, ReceiveKind kind);
  [[nodiscard]] bool takes_large() const {
    return large_receives_ && large_receives_->waiting() != 0;
  }

  void* owner = nullptr;          ///< for whoever made it
  std::uint32_t attachments = 0;  ///< multicast groups

 private:
  friend class Hca;
  using Batch = std::array<OutgoingPacket, kSendBatch>;

  /// A large send is made of what it has to be, and within the bounds.
  [[nodiscard]] bool may_cut(const ibv_send_wr& request) const;
  [[nodiscard]] int copy_elements(const ibv_send_wr& request, std::uint32_t position);
  [[nodiscard]] std::uint8_t* copied(std::uint32_t position) {
    return &copied_[std::size_t{position & copied_mask_} * copied_slot_];
  }
  /// EINVAL, or the attributes taken over.
  [[nodiscard]] int apply(const ibv_qp_attr& attr, int mask);

  Qpn number_;
  QueuePairConfig config_;
  ibv_qp_state state_ = IBV_QPS_RESET;
  QKey qkey_;
  std::uint8_t port_ = 0;  ///< 0: not bound to one yet
  std::uint16_t pkey_index_ = 0;
  std::uint32_t send_psn_ = 0;
  bool notify_drained_ = false;
  WorkQueue<SendRequest> sends_;
  ReceiveQueue receives_;
  std::unique_ptr<ReceiveQueue> large_receives_;  ///< once one has been posted
  // What is copied when a send is posted, by place in their ring: inline data, or the headers of a
  // large send.
  std::uint32_t copied_slot_;  ///< octets
  std::vector<std::uint8_t> copied_;
  std::uint32_t copied_mask_;
  std::unique_ptr<Batch> batch_;  ///< handed out by Hca::next_packets
  std::uint32_t in_flight_ = 0;   ///< sends that the batch stands for
};

}  // namespace softib::hca
