// Finds the processes that a packet goes to, by the forwarding tables of the fabric file, and
// counts drops.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "ipoib/time.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/fabric/checked_way.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/wire.hpp"
#include "softib/transport/wire_packet.hpp"

namespace softib::transport {

class Router {
 public:
  /// Passes on a packet that a cable has delayed, to deliver_late() when it is due.
  using Hold = std::function<void(WirePacket, ipoib::Duration)>;
  /// All references must outlive the router. `node` is the sending node; drops count for it, or for
  /// the HCA of an Ethernet port. `seed` is for what cables lose.
  Router(const fabric::SubnetFolder& folder, fabric::Fabric& fabric, Wire& wire, NodeIndex node,
         Hold hold, std::uint64_t seed)
      : folder_(folder),
        fabric_(fabric),
        wire_(wire),
        node_(node),
        at_(fabric.switch_of(node)),
        checked_(fabric, node, seed),
        hold_(std::move(hold)) {}

  /// Makes it the router of an Ethernet port, whose HCA is the node `hca`: packets to its GIDs go
  /// to the processes of that node, all others to `uplink`, which must outlive the router.
  void set_uplink(Uplink& uplink, NodeIndex hca) { uplink_ = &uplink, hca_ = hca; }
  /// A packet has come from the network that another process of the HCA has to get, or a MAD.
  void deliver_from_network(ConstBytes packet, Qpn destination);

  /// Sends packets to queue pairs: unicast to the process that the destination QPN names, multicast
  /// to every process of every node in the group, the sender's own included.
  void send(std::span<const OutgoingPacket> batch, SendMode mode);
  /// Sends packets of a connection; see ConnectedSink.
  [[nodiscard]] TrySent try_send(std::span<const OutgoingPacket> batch);
  [[nodiscard]] bool has_untaken(Lid dlid, Qpn destination);
  /// Sends one MAD packet, LRH to padding.
  void send_mad(ConstBytes packet) { send_mad(packet, {packet}); }
  /// Sends one MAD packet, in place of which `on_wire` arrives: the packet with its ICRC, and
  /// perhaps with bit errors.
  void send_mad(ConstBytes packet, const MadOnWire& on_wire) {
    send_mad(packet, on_wire, Pass::now);
  }
  /// Delivers a packet that a cable has delayed; not from the engine thread.
  void deliver_late(const WirePacket& packet);
  /// Sends one MAD packet to the agents of a node, whatever its DLID; for the subnet process.
  void send_mad_to(NodeIndex node, const MadOnWire& mad);
  /// Reports the end of the process that has sent a message of class 7, to which something may have
  /// to be sent later (WireReceiver::connections_ended()).
  void watch_sender(const MadPacket& packet);
  /// Wakes every process of a node. Returns false if one could not be woken; the caller has to try
  /// again.
  [[nodiscard]] bool wake_processes(NodeIndex node);

 private:
  enum class Pass : std::uint8_t { now, late };  ///< late: the packet has passed the switches
  void send_mad(ConstBytes packet, const MadOnWire& on_wire, Pass pass);
  [[nodiscard]] bool pass_switches(const MadPacket& packet, ConstBytes bytes,
                                   const MadOnWire& on_wire);
  using Packets = std::span<const OutgoingPacket* const>;
  [[nodiscard]] std::optional<NodeIndex> reachable_node(const subnet::Route& way,
                                                        std::size_t packets);
  [[nodiscard]] subnet::CheckSet checks_of(const subnet::Route& way,
                                           subnet::CheckSet of_sender) const;
  void count_undeliverable(subnet::RouteEnd end, std::size_t packets);
  void send_chunk(std::span<const OutgoingPacket> chunk, SendMode mode, subnet::CheckSet checks);
  void send_to_same(Packets packets, SendMode mode, subnet::CheckSet checks);
  void unicast(Packets packets, SendMode mode, subnet::CheckSet checks);
  void send_over_faulty_cables(Packets packets, SendMode mode);
  void arrive(const subnet::Route& way, Packets packets, SendMode mode);
  void arrive_alone(const OutgoingPacket& packet, ConstBytes bytes,
                    const fabric::CheckedWay::Arrival& arrival, SendMode mode);
  [[nodiscard]] std::size_t leading_that_pass(std::span<const OutgoingPacket> batch);
  void send_mads(Packets packets);
  void multicast(Packets packets, std::uint64_t bytes, SendMode mode);
  void multicast_checked(Packets packets, SendMode mode);
  [[nodiscard]] TrySent try_send_by_gid(std::span<const OutgoingPacket> batch);
  void send_by_gid(Packets packets, SendMode mode);
  [[nodiscard]] TrySent send_up(Packets packets, SendMode mode);
  void deliver_at_node(NodeIndex node, Packets packets, SendMode mode);
  std::size_t deliver(ProcessAddress to, Packets packets, SendMode mode);
  [[nodiscard]] std::size_t try_deliver(ProcessAddress to, Packets packets);
  bool deliver_mad(ProcessAddress to, const MadOnWire& mad);
  void send_cm(NodeIndex node, const MadPacket& packet, const MadOnWire& on_wire);
  bool deliver_cm(ProcessAddress to, const MadOnWire& mad);
  template <class Deliver>
  std::size_t deliver_to_all(NodeIndex node, Deliver deliver);
  [[nodiscard]] bool is_occupied(ProcessAddress process) const;
  void count_undelivered(ProcessAddress to, Delivery why, std::size_t packets);
  void count_lost(std::uint64_t packets);
  void count_sent(ConstBytes packet);
  std::uint64_t count_sent(Packets packets);
  [[nodiscard]] bool may_pass(NodeIndex node, bool subnet_management) const;
  void count(fabric::PortCounter counter, std::uint64_t by = 1) {
    fabric_.count(uplink_ != nullptr ? hca_ : node_, counter, by);
  }

  const fabric::SubnetFolder& folder_;
  fabric::Fabric& fabric_;
  Wire& wire_;
  const NodeIndex node_;
  const SwitchIndex at_;  ///< the switch of the sending node
  fabric::CheckedWay checked_;
  const Hold hold_;
  Uplink* uplink_ = nullptr;
  NodeIndex hca_ = 0;  ///< if there is an uplink
};

}  // namespace softib::transport
