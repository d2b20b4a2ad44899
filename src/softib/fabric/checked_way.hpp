// The way of packets where switches check their P_Key, or cables have faults (subnet::CheckSet).
//
// Other packets go by Fabric::route() and Fabric::receivers(), which know nothing of that.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "softib/fabric/fabric.hpp"

namespace softib::fabric {

/// Packets with the same headers.
struct CheckedPackets {
  subnet::PacketHeaders headers;
  std::size_t packets = 1;
  std::size_t bytes = 0;  ///< of all

  /// Reads the headers of `packet`, LRH first, as far as it has them.
  [[nodiscard]] static subnet::PacketHeaders headers_of(ConstBytes packet);
};

/// Follows packets of one node through the switches, and counts them, and those that are dropped,
/// where it happens. All functions may be called from any thread.
class CheckedWay {
 public:
  /// `fabric` must outlive this object. `seed` is for the decisions which packets a cable loses.
  CheckedWay(Fabric& fabric, NodeIndex node, std::uint64_t seed);

  /// Whether switches let packets pass to a unicast LID. Those that pass are not counted: that is
  /// left to Fabric::count_route(), for those that are sent. Their cables have no faults.
  [[nodiscard]] bool passes(const CheckedPackets& packets);

  struct Arrival {
    subnet::RouteEnd end = subnet::RouteEnd::no_entry;
    NodeIndex node = 0;       ///< if `end` is one at which packets arrive
    std::uint32_t delay = 0;  ///< by cables, ms
  };
  /// Sends a packet to a unicast LID.
  [[nodiscard]] Arrival unicast(const CheckedPackets& packet);
  /// Sends packets to a multicast LID; if cables have faults, one packet. Each node gets a copy
  /// once. `has_looped` is set if the copies would not have ended.
  [[nodiscard]] std::vector<Arrival> multicast(const CheckedPackets& packets, bool& has_looped);

 private:
  [[nodiscard]] bool enters(const Attachment& at, const CheckedPackets& packets);
  [[nodiscard]] bool leaves(const Attachment& at, const CheckedPackets& packets);
  [[nodiscard]] bool is_lost(std::uint16_t loss);
  [[nodiscard]] bool take_first_cable(const CheckedPackets& packets, std::uint32_t& delay);
  [[nodiscard]] bool take_cable(const Attachment& from, const subnet::Peer& to,
                                const CheckedPackets& packets, std::uint32_t& delay);

  Fabric& fabric_;
  const Attachment from_;  ///< port 0: the node is a switch
  std::atomic<std::uint64_t> random_;
};

}  // namespace softib::fabric
