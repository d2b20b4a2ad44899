// A queue pair (IBA 10.2.4, 10.3.1): its state, its attributes and its two queues. Class Hca sends
// and receives the packets of datagrams, class Connections those of connections.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/hca/completion_queue.hpp"
#include "softib/hca/connection.hpp"
#include "softib/hca/limits.hpp"
#include "softib/hca/memory_table.hpp"
#include "softib/hca/packet_copies.hpp"
#include "softib/hca/shared_receive_queue.hpp"
#include "softib/hca/work_queue.hpp"
#include "softib/hca/work_requests.hpp"

namespace softib::hca {

struct QueuePairConfig {
  ProtectionDomain* pd = nullptr;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  SharedReceiveQueue* shared = nullptr;  ///< for its receives; null: it has a queue of its own
  XrcDomain* domain = nullptr;           ///< of type XRC_RECV, which has no other object
  ibv_qp_cap cap{};
  ibv_qp_type type = IBV_QPT_UD;      ///< or RC, UC, XRC_SEND, XRC_RECV
  std::uint32_t max_tso_header = 0;   ///< bytes; 0: no large sends
  bool signal_all = false;            ///< sq_sig_all
  bool block_self_multicast = false;  ///< IBV_QP_CREATE_BLOCK_SELF_MCAST_LB
};

/// Whether a queue pair of this type may make the transition, and `mask` has all attributes that it
/// requires, and only those that it allows (IBA 11.2.5.2, the tables of ibv_modify_qp(3)).
[[nodiscard]] bool is_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

class QueuePair {
 public:
  QueuePair(Qpn number, const QueuePairConfig& config);

  [[nodiscard]] Qpn number() const { return number_; }
  [[nodiscard]] ibv_qp_state state() const { return state_; }
  [[nodiscard]] const QueuePairConfig& config() const { return config_; }
  [[nodiscard]] QKey qkey() const { return qkey_; }
  [[nodiscard]] std::uint16_t pkey_index() const { return pkey_index_; }
  [[nodiscard]] bool receives() const {
    return state_ != IBV_QPS_RESET && state_ != IBV_QPS_INIT && state_ != IBV_QPS_ERR;
  }
  // Of its receives; null if it is of type XRC_RECV, and no request has named a queue.
  [[nodiscard]] const auto* receive_pd() const { return shared_ ? shared_->pd() : config_.pd; }
  [[nodiscard]] CompletionQueue* receive_cq() const {
    return is_xrc_target() && shared_ != nullptr ? shared_->config().cq : config_.receive_cq;
  }
  [[nodiscard]] bool is_xrc_target() const { return config_.domain != nullptr; }
  /// The attributes reported by ibv_query_qp.
  [[nodiscard]] ibv_qp_attr attributes() const;

  /// Queues a work request. Returns 0; EINVAL if it is invalid, or the state does not allow it;
  /// ENOMEM if the queue is full.
  int enqueue(const ibv_send_wr& request);
  int enqueue(const ibv_recv_wr& request, ReceiveKind kind);
  [[nodiscard]] bool is_connected() const { return connection_ != nullptr; }
  [[nodiscard]] Connection& connection() const { return *connection_; }  ///< if is_connected()
  [[nodiscard]] bool has_large_receive() const {
    return large_receives_ && large_receives_->waiting() != 0;
  }

  void* owner = nullptr;          ///< for the creator's use
  std::uint32_t attachments = 0;  ///< multicast groups

 private:
  friend class Hca;
  friend class Connections;
  friend class SharedReceives;
  using Batch = std::array<OutgoingPacket, kSendBatch>;

  [[nodiscard]] bool is_valid_datagram(const ibv_send_wr& request) const;
  [[nodiscard]] bool is_valid_large_send(const ibv_send_wr& request) const;
  [[nodiscard]] bool is_valid_connected(const ibv_send_wr& request) const;
  void set_datagram(const ibv_send_wr& request, std::uint32_t position);
  void set_connected(const ibv_send_wr& request, std::uint32_t position);
  /// Copies inline data to the staging buffer, or the scatter elements to the queue.
  [[nodiscard]] int copy_elements(const ibv_send_wr& request, std::uint32_t position);
  [[nodiscard]] std::uint8_t* staged(std::uint32_t position) {
    return &staging_[std::size_t{position & staging_mask_} * staging_stride_];
  }
  [[nodiscard]] std::uint8_t* inline_data(std::uint32_t position);  ///< of an inline send
  /// The user of keys that its work requests and its peer name.
  [[nodiscard]] KeyUser key_user() const { return {config_.pd, number_}; }
  /// Takes over the attributes of `mask`, except the state. Returns 0 or EINVAL.
  [[nodiscard]] int apply(const ibv_qp_attr& attr, int mask);

  Qpn number_;
  QueuePairConfig config_;
  ibv_qp_state state_ = IBV_QPS_RESET;
  QKey qkey_;
  std::uint8_t port_ = 0;  ///< 0: not set yet
  std::uint16_t pkey_index_ = 0;
  ipoib::wire::Psn send_psn_;
  bool notify_drained_ = false;
  WorkQueue<SendRequest> sends_;
  SharedReceiveQueue* shared_;  ///< of type XRC_RECV: the one that the last request has named
  ReceiveQueue receives_;       ///< with a shared receive queue: what was taken for a message
  std::unique_ptr<ReceiveQueue> large_receives_;  ///< allocated by the first one posted
  // Staging buffer for data copied when a send is posted, by position: inline data, or the headers
  // of a large send.
  std::uint32_t staging_stride_;  ///< bytes
  std::vector<std::uint8_t> staging_;
  std::uint32_t staging_mask_;
  std::unique_ptr<Batch> batch_;            ///< returned by Hca::next_packets(); of UD only
  PacketCopies copies_;                     ///< for the batch
  std::uint32_t in_flight_ = 0;             ///< sends in the batch
  std::unique_ptr<Connection> connection_;  ///< null: UD
};

}  // namespace softib::hca
