// From a packet to the places that it goes to, by the fabric file; counts what goes nowhere.
#pragma once

#include <span>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/wire.hpp"

namespace softib::transport {

/// The subnet process.
inline constexpr NodeIndex kSubnetNode = 0;

class Router {
 public:
  /// All three must outlive the router. Counts for `node`, whose port sends.
  Router(const fabric::SubnetFolder& folder, fabric::Fabric& fabric, Wire& wire, NodeIndex node)
      : folder_(folder), fabric_(fabric), wire_(wire), node_(node) {}

  /// To queue pairs: unicast to the process that the destination QPN names, multicast to every
  /// process of every receiver of the group, the sender's own included.
  void send(std::span<const OutgoingPacket> batch, Patience patience);
  /// One MAD, LRH to padding.
  void send_mad(ConstBytes packet, Patience patience);
  /// One MAD that the subnet process passes on to the agents of a node, whatever its DLID.
  void send_mad_to(NodeIndex node, ConstBytes packet, Patience patience);
  /// Wakes every process of a node; false: not every one, for the time being.
  [[nodiscard]] bool nudge(NodeIndex node);

 private:
  using Packets = std::span<const OutgoingPacket* const>;
  void send_chunk(std::span<const OutgoingPacket> chunk, Patience patience);
  void send_alike(Packets packets, Patience patience);
  void unicast(Packets packets, Patience patience);
  void send_mads(Packets packets, Patience patience);
  void multicast(Packets packets, Patience patience);
  std::size_t deliver(PlaceAddress to, Packets packets, Patience patience);
  bool deliver_mad(PlaceAddress to, ConstBytes packet, Patience patience);
  template <class Deliver>
  std::size_t deliver_to_all(NodeIndex node, Deliver deliver);
  [[nodiscard]] bool is_occupied(PlaceAddress place) const;
  void count_undelivered(PlaceAddress to, Delivery why, std::size_t packets);
  void count_lost(std::uint64_t packets);
  void count_sent(ConstBytes packet);
  [[nodiscard]] bool may_pass(NodeIndex node, bool subnet_management) const;
  void count(fabric::PortCounter counter, std::uint64_t by = 1) {
    fabric_.count(node_, counter, by);
  }

  const fabric::SubnetFolder& folder_;
  fabric::Fabric& fabric_;
  Wire& wire_;
  const NodeIndex node_;
};

}  // namespace softib::transport
