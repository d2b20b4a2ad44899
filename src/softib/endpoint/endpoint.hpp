// A process's attachment to one HCA of an emulated subnet: its place, its sockets, its engine.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/fabric/port_counters.hpp"

namespace softib::endpoint {

/// Called by the engine thread, and by those who call Endpoint::take_arrivals(); by one at a time.
/// It may call everything of the endpoint but that.
class PacketReceiver {
 public:
  virtual ~PacketReceiver() = default;
  /// Packets for this process, in order of arrival. MADs come another way. The
  /// octets are valid only during the call, and their sender may change them meanwhile.
  virtual void receive(std::span<const ArrivedPacket> batch) = 0;
  /// The port as it is: once after set_receiver(), and whenever its record has changed.
  virtual void port_changed(const PortAttributes& now) = 0;
  /// Attendants may have been called off by a sender that died before it woke them: those who
  /// sleep are to be appointed again (Endpoint::attend). What has come is received afterwards.
  virtual void attendants_in_doubt() {}
};

/// MADs for this process; called by the engine thread.
class MadReceiver {
 public:
  virtual ~MadReceiver() = default;
  /// A whole packet to QP0 or QP1, LRH to padding.
  virtual void receive_mad(ConstBytes packet) = 0;
  /// The time asked for by Endpoint::set_mad_deadline has come.
  virtual void mad_deadline(ipoib::TimePoint now) = 0;
  /// The endpoint is lost: nothing comes any more.
  virtual void device_lost() {}
};

/// All of it may be called from any thread. When its HCA fails, an endpoint is lost: it lives on,
/// but nothing is sent or received; receivers learn it from `failed` or `generation` of the port,
/// and from device_lost().
class Endpoint : public PacketSink {
 public:
  /// Attaches this process to HCA `hca` of a subnet, adding the HCA if the subnet does not have it.
  /// Errors say which of subnet, HCA or place was not to be had, and what to do.
  [[nodiscard]] static ipoib::Result<std::unique_ptr<Endpoint>> attach(
      const fabric::SubnetFolder& folder, const std::string& hca);
  /// Attaches to a node that is in the fabric file: node 0 is the subnet process's own.
  [[nodiscard]] static ipoib::Result<std::unique_ptr<Endpoint>> attach_node(
      const fabric::SubnetFolder& folder, NodeIndex node);

  [[nodiscard]] virtual const std::string& hca_name() const = 0;
  [[nodiscard]] virtual NodeIndex node() const = 0;
  [[nodiscard]] virtual std::uint32_t place() const = 0;
  [[nodiscard]] virtual std::uint32_t epoch() const = 0;
  /// The HCA has failed since the endpoint was attached. From then on, so it stays.
  [[nodiscard]] virtual bool is_lost() const = 0;
  /// Gives back what a lost endpoint has of the system: its place, sockets and thread.
  virtual void retire() = 0;
  /// The port as it is now; cheap.
  [[nodiscard]] virtual PortAttributes port() const = 0;
  /// Sends one MAD packet (LRH to padding) to whom it belongs: the subnet, or an agent elsewhere.
  virtual void send_mad(ConstBytes packet) = 0;
  /// For the subnet process, which is the switch of subnet management: sends a MAD packet to the
  /// agents of a node, whatever its DLID.
  virtual void send_mad_to(NodeIndex node, ConstBytes packet) = 0;
  /// Has MadReceiver::mad_deadline called at `when`, once; replaces what was set before.
  virtual void set_mad_deadline(ipoib::TimePoint when) = 0;
  /// Makes the processes of `node` look at the port's record; for the subnet process after a
  /// change. False: the system had nothing for it, and somebody there has to be nudged again.
  [[nodiscard]] virtual bool nudge(NodeIndex node) = 0;
  /// Sets who gets packets and MADs; null for nobody. Until then they are dropped and counted.
  /// When the call returns, the engine is no longer in the receiver that was set before (unless
  /// it is the engine that calls): so do not call it with a lock that the receiver takes.
  virtual void set_receiver(PacketReceiver* receiver) = 0;
  virtual void set_mad_receiver(MadReceiver* receiver) = 0;
  /// Hands packets that have come to the receiver, in this thread. False: there were none.
  virtual bool take_arrivals() = 0;
  /// Who looks after the packets for a queue pair: an entry and an attendant of the Door. At first
  /// it is the engine. Who appoints another one calls take_arrivals() afterwards.
  virtual void attend(std::size_t entry, std::uint32_t attendant) = 0;
  /// An eventfd that senders write 1 to, when it is appointed, instead of waking the engine; it
  /// stays open until it is removed. Its number; Attendant::kEngine: there are too many.
  [[nodiscard]] virtual std::uint32_t add_bell(int event) = 0;
  virtual void remove_bell(std::uint32_t bell) = 0;
  /// Counts for this node, as `softib show` has it.
  virtual void count(fabric::PortCounter counter, std::uint64_t by = 1) = 0;
  [[nodiscard]] virtual fabric::PortCounterValues counters() const = 0;
};

/// The endpoint of this process, attached on first use by SOFTIB_DIR, SOFTIB_SUBNET, SOFTIB_HCA and
/// SOFTIB_CAPTURE; the verbs and the umad side share it. It lives until the process ends: nothing
/// is torn down at exit. A child after fork() gets one of its own, and what was made on its
/// parent's is dead in it. One that is lost is retired, and another attached. An error is not
/// remembered: the next call tries again.
[[nodiscard]] ipoib::Result<Endpoint*> process_endpoint();

}  // namespace softib::endpoint
