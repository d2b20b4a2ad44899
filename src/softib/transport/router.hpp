// Finds the processes that a packet goes to, by the forwarding tables of the fabric file, and
// counts drops.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "ipoib/time.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/fabric/checked_way.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/known_ways.hpp"
#include "softib/transport/wire.hpp"
#include "softib/transport/wire_packet.hpp"

namespace softib::transport {

class Router {
 public:
  /// Passes on a packet that a cable has delayed, to deliver_late() when it is due.
  using Hold = std::function<void(WirePacket, ipoib::Duration)>;
  /// All references must outlive the router. `node` is the first port of the sending HCA; drops
  /// count for the port that sends, or for the HCA of an Ethernet port. `seed` is for what cables
  /// lose.
  Router(const fabric::SubnetFolder& folder, fabric::Fabric& fabric, Wire& wire, NodeIndex node,
         Hold hold, std::uint64_t seed);

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
  [[nodiscard]] bool has_untaken(std::uint8_t port, Lid dlid, Qpn destination);
  /// Sends one MAD packet, LRH to padding, by a port of the HCA.
  void send_mad(std::uint8_t port, ConstBytes packet) { send_mad(port, packet, {packet}); }
  /// Sends one MAD packet, in place of which `on_wire` arrives: the packet with its ICRC, and
  /// perhaps with bit errors.
  void send_mad(std::uint8_t port, ConstBytes packet, const MadOnWire& on_wire) {
    send_mad(port, packet, on_wire, Pass::now);
  }
  /// Delivers a packet that a cable has delayed; not from the engine thread.
  void deliver_late(const WirePacket& packet);
  /// Sends one MAD packet to the agents of a node, whatever its DLID; for the subnet process.
  void send_mad_to(NodeIndex node, const MadOnWire& mad);
  /// Reports the end of the process that has sent a message of class 7, to which something may have
  /// to be sent later (WireReceiver::connections_ended()).
  void watch_sender(const MadPacket& packet);
  /// Wakes every process on the HCA that a node is a port of. Returns false if one could not be
  /// woken; the caller has to try again.
  [[nodiscard]] bool wake_processes(NodeIndex node);

 private:
  enum class Pass : std::uint8_t { now, late };  ///< late: the packet has passed the switches
  /// A port of the HCA by which packets leave.
  struct Port {
    Port(fabric::Fabric& fabric, NodeIndex index, std::uint64_t seed)
        : node(index), at(fabric.switch_of(index)), checked(fabric, index, seed) {}
    NodeIndex node;
    SwitchIndex at;  ///< that its cable leads to
    fabric::CheckedWay checked;
    KnownWays ways;
  };
  /// The port with a number; null if it has no cable.
  [[nodiscard]] Port* port(std::uint8_t number) {
    auto& found = ports_[(number - 1U) % ports_.size()];
    return found ? &*found : nullptr;
  }
  void send_mad(std::uint8_t port, ConstBytes packet, const MadOnWire& on_wire, Pass pass);
  [[nodiscard]] bool pass_switches(Port& from, const MadPacket& packet, ConstBytes bytes,
                                   const MadOnWire& on_wire);
  using Packets = std::span<const OutgoingPacket* const>;
  [[nodiscard]] std::optional<subnet::HcaPort> reachable_port(const Port& from,
                                                              const subnet::Route& way,
                                                              std::size_t packets);
  [[nodiscard]] static subnet::CheckSet checks_of(const Port& from, const subnet::Route& way,
                                                  subnet::CheckSet of_sender);
  void count_undeliverable(NodeIndex from, subnet::RouteEnd end, std::size_t packets);
  void send_chunk(Port& from, std::span<const OutgoingPacket> chunk, SendMode mode);
  void send_to_same(Port& from, Packets packets, SendMode mode);
  void unicast(Port& from, Packets packets, SendMode mode, subnet::CheckSet of_sender,
               std::uint64_t changes);
  void send_over_faulty_cables(Port& from, Packets packets, SendMode mode);
  void arrive(const Port& from, const subnet::HcaPort& to, unsigned cables, Packets packets,
              SendMode mode);
  void arrive_alone(const Port& from, const OutgoingPacket& packet, ConstBytes bytes,
                    const fabric::CheckedWay::Arrival& arrival, SendMode mode);
  [[nodiscard]] std::size_t leading_that_pass(Port& from, std::span<const OutgoingPacket> batch);
  void send_mads(Packets packets);
  void multicast(const Port& from, Packets packets, std::uint64_t bytes, SendMode mode);
  void multicast_checked(Port& from, Packets packets, SendMode mode);
  [[nodiscard]] TrySent try_send_by_gid(Packets packets);
  [[nodiscard]] std::size_t try_arrive(const Port& from, const subnet::HcaPort& to, unsigned cables,
                                       Packets packets);
  void send_by_gid(Packets packets, SendMode mode);
  [[nodiscard]] TrySent send_up(Packets packets, SendMode mode);
  void deliver_at_node(NodeIndex from, NodeIndex node, Packets packets, SendMode mode);
  /// A process of an HCA, and the port of the HCA at which packets for it arrive.
  struct Recipient {
    ProcessAddress process;
    std::uint8_t port = 1;
  };
  std::size_t deliver(NodeIndex from, const Recipient& to, Packets packets, SendMode mode);
  [[nodiscard]] std::size_t try_deliver(NodeIndex from, const Recipient& to, Packets packets);
  bool is_admitted(NodeIndex node, const MadPacket& packet);
  bool deliver_mad(NodeIndex from, ProcessAddress to, const MadOnWire& mad);
  void send_mad_to(NodeIndex from, NodeIndex node, const MadOnWire& mad);
  void send_cm(NodeIndex from, NodeIndex node, const MadPacket& packet, const MadOnWire& on_wire);
  bool deliver_cm(NodeIndex from, ProcessAddress to, const MadOnWire& mad);
  template <class Deliver>
  std::size_t deliver_to_all(NodeIndex hca, Deliver deliver);
  [[nodiscard]] bool is_occupied(ProcessAddress process) const;
  void count_undelivered(NodeIndex from, ProcessAddress to, Delivery why, std::size_t packets);
  void count_lost(NodeIndex from, std::uint64_t packets);
  void count_sent(NodeIndex from, ConstBytes packet);
  std::uint64_t count_sent(NodeIndex from, Packets packets);
  [[nodiscard]] bool may_pass(NodeIndex node, bool subnet_management) const;
  /// Counts for a port of the HCA that sends.
  void count(NodeIndex from, fabric::PortCounter counter, std::uint64_t by = 1) {
    fabric_.count(uplink_ != nullptr ? hca_ : from, counter, by);
  }

  const fabric::SubnetFolder& folder_;
  fabric::Fabric& fabric_;
  Wire& wire_;
  const NodeIndex node_;                                 ///< the first port of the sending HCA
  std::array<std::optional<Port>, kMaxHcaPorts> ports_;  ///< by number - 1; empty: has no cable
  const Hold hold_;
  Uplink* uplink_ = nullptr;
  NodeIndex hca_ = 0;  ///< if there is an uplink
};

}  // namespace softib::transport
