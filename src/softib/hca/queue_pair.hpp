// A queue pair (IBA 10.2.4, 10.3.1): its state and attributes, its two queues, and the transport
// service that sends and receives its messages: datagrams, or a connection.
#pragma once

#include <infiniband/verbs.h>

#include <cassert>
#include <cstdint>
#include <memory>
#include <variant>

#include "softib/core/hca_ports.hpp"
#include "softib/hca/completion_queue.hpp"
#include "softib/hca/connection/connection.hpp"
#include "softib/hca/datagram/datagram.hpp"
#include "softib/hca/dependencies.hpp"
#include "softib/hca/memory_table.hpp"
#include "softib/hca/send_queue.hpp"
#include "softib/hca/shared_receive_queue.hpp"
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
  /// `hca` must outlive the queue pair.
  QueuePair(Qpn number, const QueuePairConfig& config, const Dependencies& hca);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  [[nodiscard]] Qpn number() const { return number_; }
  [[nodiscard]] const QueuePairConfig& config() const { return config_; }
  [[nodiscard]] std::uint8_t port() const { return port_; }  ///< 0: not set yet
  /// The attributes of its port; if that is not set yet, those of the first one.
  [[nodiscard]] const PortAttributes& port_attributes() const {
    return ports_[port_ == 0 ? 1U : port_];
  }
  [[nodiscard]] std::uint16_t pkey_index() const { return pkey_index_; }
  [[nodiscard]] bool is_xrc_target() const { return config_.domain != nullptr; }
  /// The user of the keys that its work requests and its peer name.
  [[nodiscard]] KeyUser key_user() const { return {config_.pd, number_}; }

  // State
  [[nodiscard]] ibv_qp_state state() const { return state_; }
  [[nodiscard]] bool can_receive() const {
    return state_ != IBV_QPS_RESET && state_ != IBV_QPS_INIT && state_ != IBV_QPS_ERR;
  }
  /// Whether sends that have begun are carried on; in SQD no more begin.
  [[nodiscard]] bool can_send() const { return state_ == IBV_QPS_RTS || state_ == IBV_QPS_SQD; }
  /// Whether sends are flushed.
  [[nodiscard]] bool is_flushing() const { return state_ == IBV_QPS_SQE || state_ == IBV_QPS_ERR; }
  [[nodiscard]] bool notifies_drained() const { return notify_drained_; }
  /// Takes over the attributes of `mask`, except the state. Returns 0; EINVAL, without any change,
  /// if an attribute is invalid or the transition is not allowed.
  [[nodiscard]] int apply(const ibv_qp_attr& attr, int mask);
  void set_state(ibv_qp_state state) { state_ = state; }
  /// Discards the requests and the attributes. Requires state RESET.
  void reset();
  /// The attributes reported by ibv_query_qp.
  [[nodiscard]] ibv_qp_attr attributes() const;

  // Queues
  /// Queues a work request. Returns 0; EINVAL if it is invalid, or the state does not allow it;
  /// ENOMEM if the queue is full.
  int enqueue(const ibv_send_wr& request);
  int enqueue(const ibv_recv_wr& request, ReceiveKind kind);
  [[nodiscard]] SendQueue& sends() { return sends_; }
  /// The receives; with a shared receive queue, only the one that was taken for a message.
  [[nodiscard]] ReceiveQueue& receives() { return receives_; }
  /// The large receives; null if none has been posted.
  [[nodiscard]] ReceiveQueue* large_receives() const { return large_receives_.get(); }
  [[nodiscard]] bool has_large_receive() const {
    return large_receives_ && large_receives_->waiting() != 0;
  }
  /// The shared receive queue; of type XRC_RECV the one that the last request has named.
  [[nodiscard]] SharedReceiveQueue* shared() const { return shared_; }
  void set_shared(SharedReceiveQueue* shared) { shared_ = shared; }
  // The protection domain of its receives; null if it is of type XRC_RECV, and no request has named
  // a queue.
  [[nodiscard]] const ProtectionDomain* receive_pd() const {
    return shared_ != nullptr ? shared_->pd() : config_.pd;
  }
  [[nodiscard]] CompletionQueue* receive_cq() const {
    return is_xrc_target() && shared_ != nullptr ? shared_->config().cq : config_.receive_cq;
  }

  // Transport service
  [[nodiscard]] bool is_connected() const { return std::holds_alternative<Connection>(service_); }
  /// The transport service. Requires is_connected().
  [[nodiscard]] Connection& connection() {
    assert(is_connected());
    return *std::get_if<Connection>(&service_);
  }
  [[nodiscard]] const Connection& connection() const {
    assert(is_connected());
    return *std::get_if<Connection>(&service_);
  }
  /// The transport service. Requires that the queue pair is not connected.
  [[nodiscard]] Datagram& datagram() {
    assert(!is_connected());
    return *std::get_if<Datagram>(&service_);
  }
  [[nodiscard]] const Datagram& datagram() const {
    assert(!is_connected());
    return *std::get_if<Datagram>(&service_);
  }
  /// Whether a batch of datagrams is being sent.
  [[nodiscard]] bool has_sends_in_flight() const {
    return !is_connected() && datagram().sender.has_in_flight();
  }

  void* owner = nullptr;          ///< for the creator's use
  std::uint32_t attachments = 0;  ///< multicast groups

 private:
  /// Copies inline data, or the scatter elements, to the queue. Returns 0 or EINVAL.
  [[nodiscard]] int copy_elements(const ibv_send_wr& request, std::uint32_t position);

  Qpn number_;
  QueuePairConfig config_;
  const HcaPorts& ports_;
  ibv_qp_state state_ = IBV_QPS_RESET;
  std::uint8_t port_ = 0;
  std::uint16_t pkey_index_ = 0;
  bool notify_drained_ = false;
  SendQueue sends_;
  SharedReceiveQueue* shared_;
  ReceiveQueue receives_;
  std::unique_ptr<ReceiveQueue> large_receives_;  ///< allocated by the first one posted
  std::variant<std::monostate, Datagram, Connection> service_;
};

}  // namespace softib::hca
