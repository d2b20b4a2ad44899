// A process's attachment to one HCA of an emulated subnet: connects a process slot, the wire, the
// router and the engine.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/core/adaptive_mutex.hpp"
#include "softib/endpoint/faulty_link.hpp"
#include "softib/endpoint/live_captures.hpp"
#include "softib/endpoint/mad_receivers.hpp"
#include "softib/endpoint/receivers.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/roce/port.hpp"
#include "softib/roce/socket_exchange.hpp"
#include "softib/transport/process_slot.hpp"
#include "softib/transport/ring_wire.hpp"
#include "softib/transport/router.hpp"
#include "softib/transport/socket_engine.hpp"
#include "softib/transport/wakeup_socket.hpp"

namespace softib::endpoint {

/// All functions may be called from any thread. When its HCA fails, an endpoint is lost: it still
/// exists, but sends and receives nothing. Receivers learn it from `failed` or `generation` of the
/// port, and from device_lost().
class Endpoint final : public PacketSink,
                       public ConnectedSink,
                       public MadEndpoint,
                       private transport::WireReceiver,
                       private transport::ConnectionWatcher,
                       private roce::Receiver::Handler {
 public:
  /// The fabric file that a process has mapped, if any. Endpoints of one subnet share the mapping,
  /// since one whose HCA has failed keeps it.
  using Mapped = std::optional<fabric::Fabric>;
  /// Attaches this process to HCA `hca` of a subnet, and adds the HCA to the subnet if needed.
  /// Errors say which of subnet, HCA or process slot is not available, and what to do.
  [[nodiscard]] static ipoib::Result<std::unique_ptr<Endpoint>> attach(
      const fabric::SubnetFolder& folder, const std::string& hca, Mapped* mapped = nullptr);
  /// Attaches to a node that is in the fabric file; node 0 is that of the subnet process.
  [[nodiscard]] static ipoib::Result<std::unique_ptr<Endpoint>> attach_node(
      const fabric::SubnetFolder& folder, NodeIndex node, Mapped* mapped = nullptr);
  /// For attach_node(). Throws std::system_error when the system has no descriptors or threads
  /// left.
  Endpoint(fabric::SubnetFolder folder, fabric::Fabric fabric, NodeIndex node,
           const subnet::Node& record, transport::ProcessSlot slot);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint() override;

  [[nodiscard]] const std::string& hca_name() const { return name_; }
  /// The first port of the HCA, to which the process slots belong.
  [[nodiscard]] NodeIndex node() const { return node_; }
  [[nodiscard]] std::uint32_t slot() const { return slot_.index(); }
  [[nodiscard]] std::uint32_t epoch() const { return slot_.epoch(); }
  [[nodiscard]] RemoteProcess self() const override { return {node(), slot(), epoch()}; }

  // --- The ports -------------------------------------------------------------------------------
  /// Whether the HCA has failed since the endpoint was attached. Once true, it stays true.
  [[nodiscard]] bool is_lost() const;
  /// Releases the slot, sockets and thread of a lost endpoint.
  void detach();
  [[nodiscard]] HcaPorts ports() const override;
  [[nodiscard]] NodeIndex node_of(std::uint8_t port) const override;
  /// The port that is node().
  [[nodiscard]] PortAttributes first_port() const { return read(ports_.front()); }
  /// Makes the processes on the HCA of `node` check the records of its ports; for the subnet
  /// process after a change. Returns false if one could not be woken; the caller has to try again.
  [[nodiscard]] bool wake_processes(NodeIndex node);
  void count(fabric::PortCounter counter, std::uint64_t by = 1);
  void count_at(std::uint8_t port, fabric::PortCounter counter, std::uint64_t by = 1) override {
    count(node_of(port), counter, by);
  }
  [[nodiscard]] fabric::PortCounterValues counters() const;
  /// Counts packets that a port has dropped for a key, those of all processes together.
  void count_violations(std::uint8_t port, CheckedKey key, const KeyViolations& more);
  [[nodiscard]] std::uint64_t violations(std::uint8_t port, CheckedKey key) const {
    return fabric_.violations(node_of(port), key);
  }

  // --- An Ethernet port -------------------------------------------------------------------------
  /// Packets to the addresses of the port come from these sockets. For the process of the port; the
  /// others take those of their slot by themselves.
  void use_sockets(roce::BorrowedSockets sockets);
  /// Replaces the multicast groups whose packets come to this process. Fails if one of them cannot
  /// be joined. Not from the engine thread.
  ipoib::Result<void> set_groups(std::span<const Gid> groups);

  // --- Packets ---------------------------------------------------------------------------------
  void send(std::span<const OutgoingPacket> batch) override;
  [[nodiscard]] TrySent try_send(std::span<const OutgoingPacket> batch) override;
  [[nodiscard]] bool has_untaken(std::uint8_t port, Lid dlid, Qpn destination) override;
  /// Sets who gets packets; null for nobody. Without a receiver they are dropped and counted. On
  /// return, the engine no longer uses the previous receiver (unless the engine itself calls), so
  /// the caller must not hold a lock that the receiver takes.
  void set_receiver(PacketReceiver* receiver);
  /// Calls PacketReceiver::deadline() once at `when`; replaces the previous deadline.
  void set_deadline(ipoib::TimePoint when);
  /// Delivers packets from the receive rings in this thread. Returns false if there were none.
  bool poll_receive_rings() { return !is_inactive() && engine_.poll_receive_rings(); }
  /// Of packets and MADs, for good. To be called before there are any.
  void observe(std::unique_ptr<PacketObserver> observer);

  // --- Management datagrams --------------------------------------------------------------------
  void send_mad(std::uint8_t port, ConstBytes packet) override;
  /// Sends a MAD packet to the agents of a node, whatever its DLID; for the subnet process, which
  /// acts as the switch for subnet management.
  void send_mad_to(NodeIndex node, ConstBytes packet);
  void add_mad_receiver(MadReceiver& receiver, ManagementClasses classes = {}) override;
  /// Also its deadline. On return, the engine no longer uses it, as with set_receiver().
  void remove_mad_receiver(MadReceiver& receiver);
  void set_mad_deadline(MadReceiver& receiver, ipoib::TimePoint when) override;

  // --- Other processes -------------------------------------------------------------------------
  /// Sets who learns of processes that end; null for nobody.
  void set_process_watcher(ProcessWatcher* watcher);
  [[nodiscard]] bool is_running(const RemoteProcess& process) const;
  /// Calls ProcessWatcher::hung_up() once when the other end of a socket is closed. False: it
  /// cannot.
  [[nodiscard]] bool watch_hangup(int fd) { return !is_inactive() && engine_.watch_hangup(fd); }

  // --- Who is woken for packets ----------------------------------------------------------------
  /// Sets the waiter of a queue pair's packets: an entry and a value of transport::WakeupTable; at
  /// first the engine. The caller then has to call poll_receive_rings(), unless the engine waits.
  void set_waiter(std::size_t entry, std::uint32_t waiter);
  /// Makes a socket for add_wakeup_fd().
  [[nodiscard]] ipoib::Result<transport::WakeupSocket> make_wakeup_socket();
  /// When the socket is a waiter, senders wake the program that waits for it instead of the engine.
  /// It must exist until remove_wakeup_fd(). Returns its number, or Waiter::kEngine if there are
  /// too many.
  [[nodiscard]] std::uint32_t add_wakeup_fd(const transport::WakeupSocket& socket);
  void remove_wakeup_fd(std::uint32_t number);

 private:
  void arrived(std::span<const ArrivedPacket> packets) override;
  void arrived_at_port(std::span<const ArrivedPacket> packets);
  void mad_arrived(const transport::MadOnWire& mad) override;
  void malformed() override;
  void packets_arrived(std::span<const ArrivedPacket> packets, Qpn destination) override;
  void icrc_failed() override;
  void accept_paused() override;
  void turn_done() override;
  void deadline(ipoib::TimePoint now) override;
  void connections_ended(std::span<const transport::Process> processes) override;
  [[nodiscard]] ObjectPage objects(const ObjectRequest& request) override;
  void hung_up(int fd) override;
  [[nodiscard]] bool watch(int socket, transport::Process process) override;
  void connection_ended(transport::Process process) override;

  [[nodiscard]] std::unique_ptr<roce::Port> make_network(const PortAttributes& port);
  [[nodiscard]] ipoib::Result<void> borrow_sockets();
  /// The data path tests nothing but is_special_ besides belongs_to_parent(): whether the endpoint
  /// is lost or its link has faults.
  void set_lost();
  [[nodiscard]] TrySent try_send_unobserved(std::span<const OutgoingPacket> batch);
  void send_over_faulty_link(std::span<const OutgoingPacket> batch);
  void send_now(const WirePacket& packet);
  /// The packets without those whose ICRC is wrong, which it counts.
  [[nodiscard]] std::span<const ArrivedPacket> check_icrcs(std::span<const ArrivedPacket> packets);
  /// Nothing is sent if this endpoint belongs to a parent process or is lost.
  [[nodiscard]] bool is_inactive() const { return belongs_to_parent() || lost_; }
  [[nodiscard]] bool belongs_to_parent() const {
    return generation_ != transport::fork_generation();
  }
  [[nodiscard]] transport::SendMode send_mode() const;
  void update_deadline();
  void count_received(NodeIndex at, std::size_t packets, std::uint64_t bytes);
  void count(NodeIndex at, fabric::PortCounter counter, std::uint64_t by);
  /// Looks who captures now. The caller holds delivery_mutex_.
  void follow_captures();
  [[nodiscard]] PacketObserver* observer() const {
    return observer_.load(std::memory_order_acquire);
  }
  template <class Change>
  void with_delivery_lock(Change change);

  fabric::SubnetFolder folder_;
  mutable fabric::Fabric fabric_;
  const NodeIndex node_;
  const std::string name_;
  const std::uint16_t hca_generation_;  ///< when this process attached
  transport::ProcessSlot slot_;
  std::mutex wakeup_name_mutex_;  ///< the slot has one name for wakeup sockets
  const std::uint32_t generation_ = transport::fork_generation();
  transport::RingWire wire_;
  transport::Router router_;

  /// A port that has a cable.
  struct Port {
    NodeIndex node = 0;
    std::uint8_t number = 1;
    PortAttributes last;             ///< as it was read last
    std::uint32_t last_version = 0;  ///< of its record; used by the engine only
    bool is_reported = false;        ///< `last` has been passed to receiver_
    std::unique_ptr<FaultyLink> link{};
  };
  [[nodiscard]] std::vector<Port> make_ports(const subnet::Node& first);
  [[nodiscard]] Port make_port(NodeIndex node, const PortAttributes& port);
  [[nodiscard]] const Port& port_with(std::uint8_t number) const;
  [[nodiscard]] PortAttributes read(const Port& port) const;
  void set_faults();

  mutable std::mutex port_mutex_;  ///< guards Port::last
  std::vector<Port> ports_;        ///< one or two; the first is node_

  AdaptiveMutex delivery_mutex_;                  ///< held while a receiver is called
  std::unique_ptr<PacketObserver> own_observer_;  ///< of observe()
  LiveCaptures live_captures_;
  std::uint64_t last_captures_ = 0;  ///< the word that live_captures_ follows
  /// Whoever sees the packets now: null, own_observer_, or live_captures_, which shows them to
  /// own_observer_. The data path tests nothing else.
  std::atomic<PacketObserver*> observer_ = nullptr;
  PacketReceiver* receiver_ = nullptr;
  MadReceivers mad_receivers_;
  ProcessWatcher* watcher_ = nullptr;
  std::atomic<bool> lost_ = false;
  std::atomic<bool> is_special_ = false;  ///< lost_, or the link has faults
  std::vector<ArrivedPacket> checked_;    ///< by check_icrcs()
  bool detached_ = false;

  std::mutex deadline_mutex_;  ///< the engine has one deadline, the earliest of these
  std::map<MadReceiver*, ipoib::TimePoint> mad_deadlines_;
  ipoib::TimePoint deadline_ = ipoib::kNever;

  const std::unique_ptr<roce::Port> network_;  ///< null: the port is none of Ethernet
  transport::SocketEngine engine_;             ///< last: it uses all of the above
};

/// Returns the node of an HCA (`hca`: see HcaName). Looks in the fabric file first, so a program
/// can start while the subnet process is down; asks the subnet process to add the HCA if it is new.
[[nodiscard]] ipoib::Result<NodeIndex> find_or_add_node(const fabric::SubnetFolder& folder,
                                                        const std::string& hca);

/// Number of hosts of `softib exec`. A process of an MPI job, which knows its rank from one of the
/// variables of kRankVariables, uses the HCA host<1 + rank modulo this number> then.
inline constexpr const char* kHostsVariable = "SOFTIB_HOSTS";
/// Of Open MPI, of PMI-1 and PMI-2 (MPICH), of PMIx, and of Slurm.
inline constexpr std::array kRankVariables{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                           "SLURM_PROCID"};

/// The HCAs that this process is to use, NAME or NAME:PORT. Fails if it does not run under
/// `softib run`.
[[nodiscard]] ipoib::Result<std::vector<std::string>> process_hca_names();
/// How many HCAs this process is to use: 1 if it is unknown, so process_endpoint() can say why.
[[nodiscard]] std::size_t process_hcas();

/// Returns the endpoint of this process on one of its HCAs, counted from 0. The first call attaches
/// it as SOFTIB_DIR, SOFTIB_SUBNET, SOFTIB_HCA and SOFTIB_CAPTURE say; verbs and umad share it. It
/// is never destroyed. In a forked child, or when the endpoint is lost, the next call attaches
/// another one; objects that belong to the old one can no longer be used. After an error the next
/// call tries again.
[[nodiscard]] ipoib::Result<Endpoint*> process_endpoint(std::size_t hca = 0);

}  // namespace softib::endpoint
