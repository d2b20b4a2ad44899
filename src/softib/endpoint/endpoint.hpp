// A process's attachment to one HCA of an emulated subnet.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/fabric/port_counters.hpp"
#include "softib/transport/wakeup_socket.hpp"

namespace softib::endpoint {

/// Called by the engine thread and by threads in Endpoint::poll_receive_rings(), one at a time. May
/// call all functions of the endpoint except poll_receive_rings().
class PacketReceiver {
 public:
  virtual ~PacketReceiver() = default;
  /// Packets for queue pairs of this process, in order of arrival. Their bytes are valid only
  /// during the call, and their sender may change them meanwhile.
  virtual void receive(std::span<const ArrivedPacket> batch) = 0;
  /// The port's current attributes: once after set_receiver(), and after each change.
  virtual void port_changed(const PortAttributes& now) = 0;
  /// The time of Endpoint::set_deadline() has come. The rings have just been read.
  virtual void deadline(ipoib::TimePoint /*now*/) {}
};

/// Called by the engine thread.
class MadReceiver {
 public:
  virtual ~MadReceiver() = default;
  /// A packet to QP0 or QP1, LRH to padding.
  virtual void receive_mad(ConstBytes packet) = 0;
  /// The time of Endpoint::set_mad_deadline() has come.
  virtual void mad_deadline(ipoib::TimePoint now) = 0;
  /// The endpoint is lost; nothing more will be received.
  virtual void device_lost() {}
};

/// A process on the subnet: another one that has its slot later has another epoch.
struct RemoteProcess {
  NodeIndex node = 0;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  friend auto operator<=>(const RemoteProcess&, const RemoteProcess&) = default;
};

/// Communication management of this process. Called by the engine thread.
class CmReceiver {
 public:
  virtual ~CmReceiver() = default;
  /// A packet to QP0 or QP1, LRH to padding. False: it is for the MadReceiver.
  [[nodiscard]] virtual bool take_mad(ConstBytes packet) = 0;
  /// The time of Endpoint::set_cm_deadline() has come.
  virtual void cm_deadline(ipoib::TimePoint now) = 0;
  /// The connection to a process has ended that messages of class 7 were sent to, or that has sent
  /// a REQ, or whose connection manager has joined a multicast group. Endpoint::is_running() tells
  /// whether the process has, too. May be called again.
  virtual void connection_ended(const RemoteProcess& process) = 0;
  /// The other end of a descriptor of Endpoint::watch_hangup() has been closed.
  virtual void hung_up(int /*fd*/) {}
  /// The endpoint is lost; nothing more will be received.
  virtual void cm_lost() = 0;
};

/// All functions may be called from any thread. When its HCA fails, an endpoint is lost: it still
/// exists, but sends and receives nothing. Receivers learn it from `failed` or `generation` of the
/// port, and from device_lost().
class Endpoint : public PacketSink, public ConnectedSink {
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

  [[nodiscard]] virtual const std::string& hca_name() const = 0;
  [[nodiscard]] virtual NodeIndex node() const = 0;
  [[nodiscard]] virtual std::uint32_t slot() const = 0;
  [[nodiscard]] virtual std::uint32_t epoch() const = 0;
  /// Whether the HCA has failed since the endpoint was attached. Once true, it stays true.
  [[nodiscard]] virtual bool is_lost() const = 0;
  /// Releases the slot, sockets and thread of a lost endpoint.
  virtual void detach() = 0;
  /// The port's current attributes; cheap.
  [[nodiscard]] virtual PortAttributes port() const = 0;
  /// Sends one MAD packet (LRH to padding) to the subnet process or to an agent on another node.
  virtual void send_mad(ConstBytes packet) = 0;
  /// Sends a MAD packet to the agents of a node, whatever its DLID; for the subnet process, which
  /// acts as the switch for subnet management.
  virtual void send_mad_to(NodeIndex node, ConstBytes packet) = 0;
  /// Calls MadReceiver::mad_deadline() once at `when`; replaces the previous deadline.
  virtual void set_mad_deadline(ipoib::TimePoint when) = 0;
  /// The same for PacketReceiver::deadline().
  virtual void set_deadline(ipoib::TimePoint when) = 0;
  /// The same for CmReceiver::cm_deadline().
  virtual void set_cm_deadline(ipoib::TimePoint when) = 0;
  [[nodiscard]] virtual bool is_running(const RemoteProcess& process) const = 0;
  /// Calls CmReceiver::hung_up() once when the other end of a socket is closed. False: it cannot.
  [[nodiscard]] virtual bool watch_hangup(int fd) = 0;
  /// Makes the processes of `node` check the port's record; for the subnet process after a change.
  /// Returns false if one could not be woken; the caller has to try again.
  [[nodiscard]] virtual bool wake_processes(NodeIndex node) = 0;
  /// Sets who gets packets and MADs; null for nobody. Without a receiver they are dropped and
  /// counted. On return, the engine no longer uses the previous receiver (unless the engine itself
  /// calls), so the caller must not hold a lock that the receiver takes.
  virtual void set_receiver(PacketReceiver* receiver) = 0;
  virtual void set_mad_receiver(MadReceiver* receiver) = 0;
  virtual void set_cm_receiver(CmReceiver* receiver) = 0;
  /// Delivers packets from the receive rings in this thread. Returns false if there were none.
  virtual bool poll_receive_rings() = 0;
  /// Sets the waiter of a queue pair's packets: an entry and a value of transport::WakeupTable; at
  /// first the engine. The caller then has to call poll_receive_rings(), unless the engine waits.
  virtual void set_waiter(std::size_t entry, std::uint32_t waiter) = 0;
  /// Makes a socket for add_wakeup_fd().
  [[nodiscard]] virtual ipoib::Result<transport::WakeupSocket> make_wakeup_socket() = 0;
  /// When the socket is a waiter, senders wake the program that waits for it instead of the engine.
  /// It must exist until remove_wakeup_fd(). Returns its number, or Waiter::kEngine if there are
  /// too many.
  [[nodiscard]] virtual std::uint32_t add_wakeup_fd(const transport::WakeupSocket& socket) = 0;
  virtual void remove_wakeup_fd(std::uint32_t number) = 0;
  /// Adds to a counter of this node, which `softib show` prints.
  virtual void count(fabric::PortCounter counter, std::uint64_t by = 1) = 0;
  [[nodiscard]] virtual fabric::PortCounterValues counters() const = 0;
};

/// Returns the node of an HCA (`hca`: see HcaName). Looks in the fabric file first, so a program
/// can start while the subnet process is down; asks the subnet process to add the HCA if it is new.
[[nodiscard]] ipoib::Result<NodeIndex> find_or_add_node(const fabric::SubnetFolder& folder,
                                                        const std::string& hca);

/// How many HCAs this process is to use: 1 if it is unknown, so process_endpoint() can say why.
[[nodiscard]] std::size_t process_hcas();

/// Returns the endpoint of this process on one of its HCAs, counted from 0. The first call attaches
/// it as SOFTIB_DIR, SOFTIB_SUBNET, SOFTIB_HCA and SOFTIB_CAPTURE say; verbs and umad share it. It
/// is never destroyed. In a forked child, or when the endpoint is lost, the next call attaches
/// another one; objects that belong to the old one can no longer be used. After an error the next
/// call tries again.
[[nodiscard]] ipoib::Result<Endpoint*> process_endpoint(std::size_t hca = 0);

}  // namespace softib::endpoint
