// Seams around an endpoint: who receives from it, who observes it, and what agents of management
// datagrams need of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/hca_ports.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/core/object_list.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/fabric/port_counters.hpp"

namespace softib::endpoint {

/// Called by the engine thread and by threads in Endpoint::poll_receive_rings(), one at a time. May
/// call all functions of the endpoint except poll_receive_rings().
class PacketReceiver {
 public:
  virtual ~PacketReceiver() = default;
  /// Packets for queue pairs of this process that have arrived at one port, in order of arrival.
  /// Their bytes are valid only during the call, and their sender may change them meanwhile.
  virtual void receive(std::span<const ArrivedPacket> batch) = 0;
  /// The current attributes of a port that has a cable: once after set_receiver(), and after each
  /// change.
  virtual void port_changed(const PortAttributes& now) = 0;
  /// What another process is told that asks for the objects of this one.
  [[nodiscard]] virtual ObjectPage objects(const ObjectRequest& /*request*/) { return {}; }
  /// The time of Endpoint::set_deadline() has come. The rings have just been read.
  virtual void deadline(ipoib::TimePoint /*now*/) {}
};

/// Management classes of MADs; empty: all of them.
using ManagementClasses = std::vector<std::uint8_t>;

/// Called by the engine thread.
class MadReceiver {
 public:
  virtual ~MadReceiver() = default;
  /// A packet of a management class that this receiver is registered for. Returns false if it is
  /// for another receiver.
  [[nodiscard]] virtual bool receive_mad(const MadPacket& packet) = 0;
  /// The time of MadEndpoint::set_mad_deadline() has come.
  virtual void mad_deadline(ipoib::TimePoint /*now*/) {}
  /// The endpoint is lost; nothing more will be received.
  virtual void device_lost() {}
};

/// A process on the subnet: another one that has its slot later has another epoch.
struct RemoteProcess {
  NodeIndex node = 0;  ///< the first port of its HCA
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  friend auto operator<=>(const RemoteProcess&, const RemoteProcess&) = default;
};

/// Learns of processes that have ended. Called by the engine thread.
class ProcessWatcher {
 public:
  virtual ~ProcessWatcher() = default;
  /// The connection to a process has ended that messages of class 7 were sent to, or that has sent
  /// a REQ, or whose connection manager has joined a multicast group. Endpoint::is_running() tells
  /// whether the process has, too. May be called again.
  virtual void connection_ended(const RemoteProcess& process) = 0;
  /// The other end of a descriptor of Endpoint::watch_hangup() has been closed.
  virtual void hung_up(int /*fd*/) {}
};

/// Sees the packets and MADs of an endpoint, each once. Called by the threads that send, and by
/// those that receive.
class PacketObserver {
 public:
  virtual ~PacketObserver() = default;
  virtual void sent(std::span<const OutgoingPacket> batch) = 0;
  /// Calls `send`, and sees the packets that are done with.
  virtual TrySent try_send(std::span<const OutgoingPacket> batch,
                           const std::function<TrySent()>& send) = 0;
  /// `own` are the ports of the HCA.
  virtual void received(std::span<const ArrivedPacket> batch, const HcaPorts& own) = 0;
  virtual void mad_sent(ConstBytes packet) = 0;
  virtual void mad_received(ConstBytes packet) = 0;
};

/// What an agent of management datagrams needs of an endpoint. Implemented by Endpoint, and in
/// memory by tests.
class MadEndpoint {
 public:
  virtual ~MadEndpoint() = default;
  /// The process that has attached the endpoint.
  [[nodiscard]] virtual RemoteProcess self() const = 0;
  /// The current attributes of the HCA's ports; cheap.
  [[nodiscard]] virtual HcaPorts ports() const = 0;
  /// The node that a port is; that of another one if the port has no cable.
  [[nodiscard]] virtual NodeIndex node_of(std::uint8_t port) const = 0;
  /// Sends one MAD packet (LRH to padding) by a port to the subnet process or to an agent on
  /// another node.
  virtual void send_mad(std::uint8_t port, ConstBytes packet) = 0;
  /// Registers a receiver for MADs of these classes. It gets them before receivers of all classes,
  /// which get what it does not take.
  virtual void add_mad_receiver(MadReceiver& receiver, ManagementClasses classes) = 0;
  /// Calls MadReceiver::mad_deadline() once at `when`; replaces the previous deadline of this
  /// receiver.
  virtual void set_mad_deadline(MadReceiver& receiver, ipoib::TimePoint when) = 0;
  /// Adds to a counter of a port, which `softib show` prints.
  virtual void count_at(std::uint8_t port, fabric::PortCounter counter, std::uint64_t by = 1) = 0;
};

}  // namespace softib::endpoint
