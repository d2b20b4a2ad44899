// One connection (IBA 12.9): a state machine, docs/states.md, "Connection of the communication
// manager". The manager finds the connection of a message, and calls the stimuli.
//
// A connection belongs to its user until its last event, or until the user destroys it. Then it may
// still have to tell the peer, or to answer late messages: it is "released".
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>

#include "ipoib/result.hpp"
#include "softib/cm/output.hpp"
#include "softib/cm/qp_parameters.hpp"

namespace softib::cm {

/// The identity of this process on its HCA.
struct Self {
  ipoib::Guid ca_guid;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint8_t ack_delay = 0;  ///< of the HCA, a code
};

struct ConnectionStates {
  /// A packet, which the state that repeats it keeps.
  using Packet = std::unique_ptr<MadPacket>;

  struct ReqSent {
    Repeated req;
  };
  struct ReqReceived {
    std::unique_ptr<wire::CmMra> mra{};  ///< once the user has prepared it
  };
  struct RepSent {
    Repeated rep;
  };
  struct RepReceived {
    std::unique_ptr<wire::CmMra> mra{};
  };
  struct Established {
    Packet rtu{};  ///< of the active side
  };
  struct DreqSent {
    Repeated dreq;
    bool rejects = false;  ///< the peer may still be about to establish the connection
  };
  struct DreqReceived {
    std::uint64_t transaction_id = 0;
  };
  struct TimeWait {
    ipoib::TimePoint until;
    Packet rejection{};  ///< the message that ended it, to be repeated
    Packet drep{};
  };
  struct Ended {};  ///< the manager erases it
  using State = std::variant<ReqSent, ReqReceived, RepSent, RepReceived, Established, DreqSent,
                             DreqReceived, TimeWait, Ended>;
};

/// Names of the states of a connection, in the order of their numbers.
inline constexpr std::array<std::string_view, 9> kConnectionStates{
    "ReqSent",  "ReqReceived",  "RepSent",  "RepReceived", "Established",
    "DreqSent", "DreqReceived", "TimeWait", "Ended"};
static_assert(kConnectionStates.size() == std::variant_size_v<ConnectionStates::State>);

class Connection : private ConnectionStates {
 public:
  /// The parts of the manager that connections use; all outlive them.
  struct Dependencies {
    const Self& self;
    Output& out;
  };

  /// The active side: sends `req`, which is complete.
  Connection(const Route& route, const wire::CmReq& req, const wire::PathRecord& path,
             const Dependencies& deps, ipoib::TimePoint now);
  /// The passive side, whose REQ came by this transaction.
  Connection(Handle handle, const Route& route, std::uint64_t transaction_id,
             const wire::CmReq& req);

  [[nodiscard]] Handle handle() const { return handle_; }
  [[nodiscard]] const Route& route() const { return route_; }
  /// The communication ID of the peer; 0 while it is not known.
  [[nodiscard]] CommId remote_id() const { return remote_id_; }
  [[nodiscard]] Guid remote_guid() const { return remote_guid_; }
  [[nodiscard]] Qpn local_qpn() const { return local_qpn_; }
  [[nodiscard]] Qpn remote_qpn() const { return parameters_.remote_qpn; }
  [[nodiscard]] const QpParameters& parameters() const { return parameters_; }
  [[nodiscard]] bool is_released() const { return released_; }
  [[nodiscard]] bool has_ended() const { return std::holds_alternative<Ended>(state_); }
  /// Whether the users of both sides have wanted the connection.
  [[nodiscard]] bool was_established() const { return was_established_; }
  /// Whether the queue pair of the peer is known and belongs to this connection, which is so until
  /// time wait.
  [[nodiscard]] bool holds_remote_qp() const;
  [[nodiscard]] bool awaits_rep() const { return std::holds_alternative<ReqSent>(state_); }
  /// The number of the state: an index of kConnectionStates.
  [[nodiscard]] std::uint8_t state() const { return static_cast<std::uint8_t>(state_.index()); }
  [[nodiscard]] ipoib::TimePoint deadline() const;

  // --- Calls of the user. They fail with EINVAL in a wrong state. --------------------------------
  [[nodiscard]] ipoib::Result<void> accept(wire::CmRep rep, const Dependencies& deps,
                                           ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> confirm(wire::CmRtu rtu, const Dependencies& deps);
  [[nodiscard]] ipoib::Result<void> reject(wire::CmRej rej, const Dependencies& deps,
                                           ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> prepare_mra(const wire::CmMra& mra);
  [[nodiscard]] ipoib::Result<void> communication_established(const Dependencies& deps);
  [[nodiscard]] ipoib::Result<void> disconnect(const wire::PrivateData<220>& private_data,
                                               const Dependencies& deps, ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> forget();
  void destroy(const Dependencies& deps, ipoib::TimePoint now);

  // --- Messages of the peer ---------------------------------------------------------------------
  void on_duplicate_req(const Dependencies& deps);
  void on_mra(const wire::CmMra& mra, const Dependencies& deps, ipoib::TimePoint now);
  void on_rej(const wire::CmRej& rej, const Dependencies& deps, ipoib::TimePoint now);
  void on_rep(const wire::CmRep& rep, const Dependencies& deps);
  void on_rtu(const wire::CmRtu& rtu, const Dependencies& deps);
  void on_dreq(const wire::CmDreq& dreq, std::uint64_t transaction_id, const Dependencies& deps,
               ipoib::TimePoint now);
  void on_drep(const wire::CmDrep& drep, const Dependencies& deps, ipoib::TimePoint now);

  // --- Other stimuli ----------------------------------------------------------------------------
  void on_deadline(const Dependencies& deps, ipoib::TimePoint now);
  /// The peer's process has gone; while that is not known, any process at the peer's port.
  void on_peer_gone(const Dependencies& deps, ipoib::TimePoint now);
  /// The peer uses its queue pair for another connection (IBA 12.9.8.3.1).
  void on_stale(const Dependencies& deps, ipoib::TimePoint now);
  /// The REP that has come names a queue pair of another connection.
  void refuse_stale_rep(const wire::CmRep& rep, const Dependencies& deps);

 private:
  using What = decltype(Event::what);

  [[nodiscard]] Repeated repeated(const MadPacket& packet, ipoib::TimePoint now) const;
  void tell(const What& what, const Dependencies& deps);
  void tell_last(const What& what, const Dependencies& deps);
  void tell_rejected(wire::CmRejReason reason, const Dependencies& deps);
  [[nodiscard]] wire::CmRej rejection(wire::CmRejReason reason) const;
  const MadPacket& send_rej(wire::CmRej rej, const Dependencies& deps);
  [[nodiscard]] Packet send_drep(std::uint64_t transaction_id, const Dependencies& deps,
                                 const wire::PrivateData<224>& private_data = {});
  [[nodiscard]] wire::CmMad dreq(const wire::PrivateData<220>& private_data) const;
  void send_dreq(const wire::PrivateData<220>& private_data, const Dependencies& deps,
                 ipoib::TimePoint now);
  void withdraw_rep(const wire::CmRej& rej, const Dependencies& deps, ipoib::TimePoint now);
  void wait(ipoib::TimePoint now, Packet rejection = {}, Packet drep = {});
  void become_disconnected(const Dependencies& deps, ipoib::TimePoint now, Packet drep = {},
                           const wire::PrivateData<224>& private_data = {});
  [[nodiscard]] ipoib::Error refusal(std::string_view call) const;

  Handle handle_;
  CommId remote_id_;
  Guid remote_guid_;
  Qpn local_qpn_;
  Route route_;
  std::uint64_t transaction_id_ = 0;  ///< of REQ, and of its answers
  QpParameters parameters_;
  ipoib::Duration interval_{};  ///< after which a message is repeated
  std::uint8_t retries_ = 0;
  bool has_alternate_ = false;
  bool was_established_ = false;
  bool released_ = false;
  State state_;
};

}  // namespace softib::cm
