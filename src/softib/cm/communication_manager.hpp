// The communication manager of one process (IBA volume 1, chapter 12): connections, listeners and
// service resolution. It has no descriptor, clock, thread or lock. The caller passes in calls of
// the user, MADs and `now`, and takes the MADs to send and the events from lists.
//
//   active side                                   passive side
//     connect()   REQ  --------------------------> ConnectionRequested
//     Accepted         <-------------------- REP   accept()
//     confirm()   RTU  --------------------------> Established
//     disconnect() DREQ -------------------------> Disconnected, awaits_answer
//     Disconnected     <------------------- DREP   disconnect()
//     TimeWaitOver                                 TimeWaitOver
//
// Alternate paths are not supported: LAP is refused.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ipoib/fair_share.hpp"
#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "softib/cm/connection.hpp"
#include "softib/cm/deadlines.hpp"
#include "softib/cm/handle_sequence.hpp"
#include "softib/cm/limits.hpp"
#include "softib/cm/listeners.hpp"
#include "softib/cm/output.hpp"
#include "softib/cm/peer.hpp"
#include "softib/cm/service_resolution.hpp"

namespace softib::cm {

class CommunicationManager {
 public:
  explicit CommunicationManager(const Self& self) : self_(self), handles_(self.epoch, self.slot) {}
  CommunicationManager(const CommunicationManager&) = delete;
  CommunicationManager& operator=(const CommunicationManager&) = delete;

  // --- Calls of the user. They fail with EINVAL for an unknown handle or a wrong state. --------

  /// Listens as Listeners::add() says, for REQ and SIDR_REQ of any peer.
  [[nodiscard]] ipoib::Result<ListenerId> listen(wire::ServiceId service,
                                                 std::uint64_t mask = Listeners::kExact,
                                                 std::uint8_t port = Listeners::kAnyPort) {
    return listeners_.add(service, mask, port);
  }
  /// Stops listening. Requests that have been reported stay.
  void stop_listening(ListenerId listener) { listeners_.remove(listener); }

  /// Sends a REQ. Sets its communication ID, CA GUID, and what `path` says: primary path, P_Key,
  /// MTU; there is no alternate path. Fails with EINVAL for a transport other than RC, UC and XRC,
  /// and with ENOMEM beyond kMaxConnections.
  [[nodiscard]] ipoib::Result<Handle> connect(wire::CmReq req, const wire::PathRecord& path,
                                              const PortAttributes& port, ipoib::TimePoint now);
  /// Answers ConnectionRequested. Sets communication IDs, CA GUID, ACK delay and failover.
  [[nodiscard]] ipoib::Result<void> accept(Handle handle, const wire::CmRep& rep,
                                           ipoib::TimePoint now);
  /// Answers Accepted. Sets the communication IDs.
  [[nodiscard]] ipoib::Result<void> confirm(Handle handle, const wire::CmRtu& rtu);
  /// Answers ConnectionRequested or Accepted, also after accept(); ends the handle. Sets
  /// communication IDs and subject.
  [[nodiscard]] ipoib::Result<void> reject(Handle handle, const wire::CmRej& rej,
                                           ipoib::TimePoint now);
  /// The answer to ConnectionRequested or Accepted will take long: MRAs answer duplicates. Sets
  /// communication IDs and subject.
  [[nodiscard]] ipoib::Result<void> prepare_mra(Handle handle, const wire::CmMra& mra);
  /// Data of the peer have arrived on the accepted connection, so its RTU was lost. Fails with
  /// EISCONN if the RTU has come.
  [[nodiscard]] ipoib::Result<void> communication_established(Handle handle);
  /// Ends an established connection, or answers Disconnected.
  [[nodiscard]] ipoib::Result<void> disconnect(Handle handle,
                                               const wire::PrivateData<220>& private_data,
                                               ipoib::TimePoint now);
  /// Forgets ConnectionRequested without an answer, so that the peer repeats its request.
  [[nodiscard]] ipoib::Result<void> forget(Handle handle);

  /// Sends a SIDR_REQ. Sets its request ID and P_Key. Fails with ENOMEM beyond kMaxResolutions.
  [[nodiscard]] ipoib::Result<Handle> resolve(wire::CmSidrReq req, const wire::PathRecord& path,
                                              const Retries& retries, const PortAttributes& port,
                                              ipoib::TimePoint now);
  /// Answers ServiceRequested, and ends the handle. Sets request ID and service ID.
  [[nodiscard]] ipoib::Result<void> answer(Handle handle, const wire::CmSidrRep& rep,
                                           ipoib::TimePoint now);

  /// Ends a handle: sends the peer the message that fits the state, and drops events that were not
  /// taken. A handle that has ended is ignored.
  void destroy(Handle handle, ipoib::TimePoint now);

  // --- Stimuli ----------------------------------------------------------------------------------

  /// Whether a message that has come to this port of the HCA is for this manager, rather than for
  /// another process of the node.
  [[nodiscard]] bool is_recipient(const wire::CmMessage& message, const Peer& from,
                                  std::uint8_t port) const;
  /// A MAD of class 7 has come. The caller has checked Q_Key, P_Key and GRH.
  void receive(const MadPacket& packet, const PortAttributes& port, ipoib::TimePoint now);
  void on_time(ipoib::TimePoint now);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  /// The process that had this slot and epoch at a port has gone. `lmc` is that of all ports of the
  /// subnet.
  void process_gone(const Peer& at, std::uint8_t lmc, std::uint32_t slot, std::uint32_t epoch,
                    ipoib::TimePoint now);

  // --- Output -----------------------------------------------------------------------------------

  [[nodiscard]] std::vector<MadPacket> take_outgoing() { return std::exchange(out_.packets, {}); }
  [[nodiscard]] std::vector<Event> take_events() { return std::exchange(out_.events, {}); }
  [[nodiscard]] const Counters& counters() const { return out_.counters; }

  /// The connection of a handle; null if the user has no such one. Valid until the next call.
  [[nodiscard]] const Connection* connection(Handle handle) const;
  /// Visits all connections, also those that are released.
  template <class Function>
  void for_each_connection(Function&& function) const {
    for (const auto& [handle, entry] : connections_) function(entry.connection);
  }
  /// Whether a connection needs to know when a process ends; see process_gone().
  [[nodiscard]] bool has_peer(const Peer& at, std::uint32_t slot, std::uint32_t epoch) const;
  [[nodiscard]] std::size_t connection_count() const { return connections_.size(); }
  [[nodiscard]] std::size_t resolution_count() const { return resolution_.size(); }
  /// The number of requests that count towards kMaxRequests.
  [[nodiscard]] std::size_t pending_requests() const { return kMaxRequests - requests_.free(); }

 private:
  using RequestKey = std::pair<Peer, CommId>;  ///< with the local ID of the active side
  using QpKey = std::pair<Peer, Qpn>;          ///< with the queue pair of the peer
  struct Entry {
    Connection connection;
    Peer peer;
    std::optional<RequestKey> request{};
    std::optional<QpKey> qp{};
    bool is_pending = false;  ///< counts in requests_
    ipoib::TimePoint deadline = ipoib::kNever;
  };
  struct Incoming {
    const MadPacket& packet;
    const PortAttributes& port;
    std::uint64_t transaction_id;
    ipoib::TimePoint now;

    [[nodiscard]] Peer peer() const { return Peer::sender_of(packet, port.lmc); }
  };

  /// Whether the peer is this process, or may be it.
  [[nodiscard]] static bool may_be_with(const Entry& entry, const Peer& peer, std::uint32_t slot,
                                        std::uint32_t epoch);
  [[nodiscard]] Connection::Dependencies dependencies() { return {self_, out_}; }
  [[nodiscard]] Handle new_handle();
  [[nodiscard]] Entry* owned(Handle handle);
  /// Makes a call on a connection of the user.
  template <class Call>
  [[nodiscard]] ipoib::Result<void> call(Handle handle, Call&& make);
  void update(Entry& entry);

  void on_message(const wire::CmReq& req, const Incoming& in);
  void on_message(const wire::CmMra& mra, const Incoming& in);
  void on_message(const wire::CmRej& rej, const Incoming& in);
  void on_message(const wire::CmRep& rep, const Incoming& in);
  void on_message(const wire::CmRtu& rtu, const Incoming& in);
  void on_message(const wire::CmDreq& dreq, const Incoming& in);
  void on_message(const wire::CmDrep& drep, const Incoming& in);
  void on_message(const wire::CmSidrReq& req, const Incoming& in);
  void on_message(const wire::CmSidrRep& rep, const Incoming& in);
  void on_message(const wire::CmLap& lap, const Incoming& in);
  void on_message(const wire::CmApr& apr, const Incoming& in);

  void reply(const Incoming& in, const wire::CmMessage& message);
  template <class Message>
  void reject_unknown(const Message& message, wire::CmSubject subject, const Incoming& in);
  template <class Message>
  [[nodiscard]] Entry* find(const Message& message, const Incoming& in);
  [[nodiscard]] Entry* find_other_with_qp(const Entry& entry, Qpn qpn);
  void end_stale(Entry& entry, ipoib::TimePoint now);

  const Self self_;
  Output out_;
  Listeners listeners_;
  ServiceResolution resolution_{out_};
  HandleSequence handles_;
  std::unordered_map<Handle, Entry> connections_;  ///< peers do not choose the keys
  std::map<RequestKey, Handle> by_request_;        ///< of the passive side
  std::map<QpKey, Handle> by_qp_;
  ipoib::FairShare<Peer> requests_{kMaxRequests};
  Deadlines deadlines_;
};

}  // namespace softib::cm
