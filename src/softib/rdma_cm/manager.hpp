// The RDMA connection manager of one process: the counterpart of rdma_cm and rdma_ucm in Linux. It
// has no descriptor, clock, thread or lock. The caller passes in commands of the user, MADs and
// `now`, and takes MADs and events from lists.
//
//   active side                              passive side
//     create()                                 create()
//     resolve_address()  address_resolved      bind()
//     resolve_route()    route_resolved        listen()
//     connect()          ------ REQ ------->   connect_request, with a new ID
//     connect_response   <----- REP --------   accept()
//     confirm()          ------ RTU ------->   established
//     disconnect()       ------ DREQ ------>   disconnected
//     disconnected       <----- DREP -------   disconnect(), or destroy()
//
// Errors are those of the kernel's commands.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ipoib/random.hpp"
#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "softib/cm/communication_manager.hpp"
#include "softib/rdma_cm/id.hpp"
#include "softib/rdma_cm/id_status.hpp"
#include "softib/rdma_cm/node.hpp"
#include "softib/rdma_cm/ports.hpp"
#include "softib/rdma_cm/qp_attributes.hpp"
#include "softib/rdma_cm/sa_requests.hpp"

namespace softib::rdma_cm {

class Manager {
 public:
  /// An HCA of the process, with its numbers in communication IDs and transaction IDs.
  struct Hca {
    cm::Self self;
    NodeIndex node = 0;
  };
  /// `node` outlives the manager. `seed` is for starting PSNs and ephemeral ports.
  Manager(const std::vector<Hca>& hcas, Node& node, std::uint64_t seed);
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // --- Event channels ---------------------------------------------------------------------------

  /// Opens an event channel. Fails with EMFILE beyond kMaxChannels.
  [[nodiscard]] ipoib::Result<ChannelId> open_channel();
  /// Closes a channel, and destroys its IDs.
  void close_channel(ChannelId channel, ipoib::TimePoint now);
  [[nodiscard]] bool has_event(ChannelId channel) const;
  /// Takes the next event; fails with EAGAIN if there is none.
  [[nodiscard]] ipoib::Result<Event> take_event(ChannelId channel);

  // --- Commands. ENOENT: no such ID; EINVAL: it belongs to another channel, or its state does not
  // permit the command.
  // ----------------------------------------------------------------------------

  /// Creates an ID. `service` counts for PortSpace::ib only. Fails with ENOMEM beyond kMaxIds.
  [[nodiscard]] ipoib::Result<IdHandle> create(ChannelId channel, std::uint64_t uid,
                                               PortSpace space, Service service);
  /// Destroys an ID. Returns how many of its events take_event() has returned.
  [[nodiscard]] ipoib::Result<std::uint32_t> destroy(ChannelId channel, IdHandle id,
                                                     ipoib::TimePoint now);
  /// Moves an ID and its events from channel `from`. Returns the same as destroy().
  [[nodiscard]] ipoib::Result<std::uint32_t> migrate(ChannelId to, ChannelId from, IdHandle id);
  /// Binds an ID. Fails with EADDRNOTAVAIL or ENODEV if no port of the process has the address,
  /// with EADDRINUSE as Ports says, and with EPROTONOSUPPORT for a service ID of no port space.
  [[nodiscard]] ipoib::Result<void> bind(ChannelId channel, IdHandle id, const Address& address);
  /// Resolves a destination; `source` may be none. The event is address_resolved or address_error.
  [[nodiscard]] ipoib::Result<void> resolve_address(ChannelId channel, IdHandle id,
                                                    const Address& source,
                                                    const Address& destination,
                                                    ipoib::Duration timeout, ipoib::TimePoint now);
  /// Requests the path. The event is route_resolved or route_error.
  [[nodiscard]] ipoib::Result<void> resolve_route(ChannelId channel, IdHandle id,
                                                  ipoib::Duration timeout, ipoib::TimePoint now);
  /// Gives the ID the path that resolve_route() would ask for. The event is route_resolved.
  [[nodiscard]] ipoib::Result<void> set_path(ChannelId channel, IdHandle id,
                                             const wire::PathRecord& path);
  [[nodiscard]] ipoib::Result<void> listen(ChannelId channel, IdHandle id, unsigned backlog);
  [[nodiscard]] ipoib::Result<void> connect(ChannelId channel, IdHandle id,
                                            const ConnectionParameters& parameters,
                                            ipoib::TimePoint now);
  /// Answers connect_request; from now on events have this `uid`.
  [[nodiscard]] ipoib::Result<void> accept(ChannelId channel, IdHandle id, std::uint64_t uid,
                                           const ConnectionParameters& parameters,
                                           ipoib::TimePoint now);
  /// Answers connect_response, once the queue pair can receive.
  [[nodiscard]] ipoib::Result<void> confirm(ChannelId channel, IdHandle id, ipoib::TimePoint now);
  /// Rejects a connect_request. Fails with EINVAL for a reason that users must not give.
  [[nodiscard]] ipoib::Result<void> reject(ChannelId channel, IdHandle id, const UserData& data,
                                           wire::CmRejReason reason, ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> disconnect(ChannelId channel, IdHandle id,
                                               ipoib::TimePoint now);
  /// Data have arrived on the accepted connection. Fails with EISCONN if its RTU has arrived, too.
  [[nodiscard]] ipoib::Result<void> communication_established(ChannelId channel, IdHandle id,
                                                              ipoib::TimePoint now);
  /// Joins a datagram ID that is bound to a port to the multicast group of an address. The event is
  /// multicast_join or multicast_error with this `uid`. Fails with ENOMEM beyond kMaxJoins.
  [[nodiscard]] ipoib::Result<JoinHandle> join(ChannelId channel, IdHandle id, std::uint64_t uid,
                                               const Address& group, bool is_send_only,
                                               ipoib::TimePoint now);
  /// Leaves a group. Returns how many events of the join take_event() has returned. Fails with
  /// ENOENT if there is no such join.
  [[nodiscard]] ipoib::Result<std::uint32_t> leave(ChannelId channel, JoinHandle join,
                                                   ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> set_tos(ChannelId channel, IdHandle id, std::uint8_t tos);
  [[nodiscard]] ipoib::Result<void> set_reuses_address(ChannelId channel, IdHandle id, bool on);
  [[nodiscard]] ipoib::Result<void> set_family_only(ChannelId channel, IdHandle id, bool on);
  [[nodiscard]] ipoib::Result<void> set_ack_timeout(ChannelId channel, IdHandle id,
                                                    std::uint8_t code);
  [[nodiscard]] ipoib::Result<QpAttributes> init_qp(ChannelId channel, IdHandle id,
                                                    std::uint32_t state) const;

  /// Finds an ID, and fails as the commands do. The result is valid until the next call.
  [[nodiscard]] ipoib::Result<const Id*> find(ChannelId channel, IdHandle id) const;

  // --- Stimuli ----------------------------------------------------------------------------------

  /// Whether a MAD that an HCA has received is for this manager.
  [[nodiscard]] bool is_recipient(std::size_t hca, const MadPacket& packet) const;
  /// A MAD has come. The caller has checked Q_Key, P_Key and GRH.
  void receive(std::size_t hca, const MadPacket& packet, ipoib::TimePoint now);
  void on_time(ipoib::TimePoint now);
  /// The node has found an address.
  void retry_addresses(ipoib::TimePoint now);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;
  /// See cm::CommunicationManager.
  void process_gone(std::size_t hca, const cm::Peer& at, std::uint32_t slot, std::uint32_t epoch,
                    ipoib::TimePoint now);
  /// The HCA has failed: its IDs get device_removal.
  void hca_lost(std::size_t hca, ipoib::TimePoint now);

  // --- Output -----------------------------------------------------------------------------------

  [[nodiscard]] std::vector<MadPacket> take_outgoing(std::size_t hca);
  /// Channels whose has_event() may have changed; they may be closed by now.
  [[nodiscard]] std::vector<ChannelId> take_changed_channels() {
    return std::exchange(changed_channels_, {});
  }
  /// IDs whose status() may have changed.
  [[nodiscard]] std::set<IdHandle> take_changed_ids() { return std::exchange(changed_ids_, {}); }
  /// The status of an ID; nullopt if it was destroyed.
  [[nodiscard]] std::optional<IdStatus> status(IdHandle id) const;
  [[nodiscard]] std::size_t id_count() const { return ids_.size(); }
  [[nodiscard]] std::size_t hca_count() const { return hcas_.size(); }
  [[nodiscard]] const cm::CommunicationManager& communication(std::size_t hca) const {
    return hcas_.at(hca)->cm;
  }

 private:
  struct HcaState {
    HcaState(const Hca& hca, std::size_t number);
    const std::size_t number;
    cm::CommunicationManager cm;
    SaRequests sa;
    std::map<cm::Handle, IdHandle> by_connection;
    bool is_lost = false;
  };
  struct Join {
    JoinHandle handle;
    IdHandle id;
    std::uint64_t uid = 0;
    LocalPort port;
    Gid mgid;
    std::uint8_t join_state = 0;
    bool is_member = false;
    std::uint32_t events_reported = 0;
  };
  /// IDs on the same service of a port share a listener of the communication manager.
  using ServiceKey = std::pair<LocalPort, wire::ServiceId>;
  struct SharedListener {
    cm::ListenerId listener;
    std::vector<IdHandle> ids;
  };
  struct QueuedEvent {
    Event event;
    IdHandle counted_for;  ///< the ID, or the listener of a new ID
  };
  using Channel = std::deque<QueuedEvent>;

  [[nodiscard]] Channel& changed(ChannelId channel);
  [[nodiscard]] Id& changed(IdHandle id);
  [[nodiscard]] ipoib::Result<Id*> owned(ChannelId channel, IdHandle id);
  [[nodiscard]] ipoib::Result<Id*> owned(ChannelId channel, IdHandle id, IdState state);
  [[nodiscard]] ipoib::Result<Id*> connected(ChannelId channel, IdHandle id);
  [[nodiscard]] Id& add_id(ChannelId channel, PortSpace space, Service service);
  void remove(Id& id, ipoib::TimePoint now);
  void tell(const Id& id, EventType type, int status = 0);
  void tell(const Id& id, Event event);

  [[nodiscard]] ipoib::Result<void> bind(Id& id, const Address& address);
  [[nodiscard]] std::vector<LocalPort> local_ports() const;
  [[nodiscard]] ipoib::Result<void> bind_port(Id& id, const Address& address);
  void use_port(Id& id, const LocalPort& port, PKey pkey) const;
  [[nodiscard]] LocalPort choose_port(const Gid& destination) const;
  [[nodiscard]] HcaState& hca_of(const Id& id) const { return *hcas_.at(id.local->hca); }
  [[nodiscard]] std::optional<Node::Remote> find_destination(const Id& id) const;
  void try_to_resolve(Id& id, ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> start_listening(const Id& id, const LocalPort& port);
  void stop_listening(const Id& id);
  [[nodiscard]] ipoib::Result<void> send_req(Id& id, const ConnectionParameters& parameters,
                                             ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> send_sidr_req(Id& id, const ConnectionParameters& parameters,
                                                  ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> send_rep(Id& id, const ConnectionParameters& parameters,
                                             ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> send_rejection(Id& id, const UserData& data,
                                                   wire::CmRejReason reason, ipoib::TimePoint now);
  [[nodiscard]] ipoib::Result<void> send_sidr_rep(Id& id, wire::CmSidrRep rep, const UserData& data,
                                                  ipoib::TimePoint now);
  void keep_connection(Id& id, cm::Handle handle);
  void drop_connection(Id& id);

  void settle(ipoib::TimePoint now);
  void on_answer(const SaRequests::Result& result);
  void on_path(Id& id, const SaRequests::Result& result);
  void on_join(Join& join, const SaRequests::Result& result);
  [[nodiscard]] std::optional<Gid> group_of(const Id& id, const Address& address) const;
  [[nodiscard]] bool release_group(const Join& join);
  void leave(const Join& join, ipoib::TimePoint now);
  void on_event(HcaState& hca, const cm::Event& event, ipoib::TimePoint now);
  struct Request;
  /// What becomes of a request of a peer.
  enum class Reception { reported, no_room, no_listener };
  [[nodiscard]] Reception on_request(const Request& request);
  void on_connection_request(HcaState& hca, cm::Handle handle, const cm::ConnectionRequested& asked,
                             ipoib::TimePoint now);
  void on_service_request(HcaState& hca, cm::Handle handle, const cm::ServiceRequested& request,
                          ipoib::TimePoint now);
  void on_connection_event(Id& id, const cm::Event& event);
  [[nodiscard]] Id* find_listener(const LocalPort& port, wire::ServiceId service,
                                  const Address& destination);

  Node& node_;
  ipoib::Random random_;
  std::vector<std::unique_ptr<HcaState>> hcas_;
  Ports ports_;
  std::map<ChannelId, Channel> channels_;
  std::vector<ChannelId> changed_channels_;
  std::uint32_t last_channel_ = 0;
  std::map<IdHandle, Id> ids_;
  std::set<IdHandle> changed_ids_;
  std::uint32_t last_id_ = 0;
  std::map<ServiceKey, SharedListener> listeners_;
  std::map<JoinHandle, Join> joins_;
  std::uint32_t last_join_ = 0;
  std::set<std::pair<ipoib::TimePoint, IdHandle>> address_deadlines_;  ///< of IDs in AddressQuery
};

}  // namespace softib::rdma_cm
