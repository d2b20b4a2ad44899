// The checks that a packet has to pass (IBA 9.6): those of the port, then those of the queue pair.
// A packet that fails one is dropped and counted. Connections check their peer afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softib/core/hca_ports.hpp"
#include "softib/hca/counters.hpp"
#include "wire/packet.hpp"

namespace softib::hca {

class QueuePair;

/// A packet, or several that are handled as one.
struct Arrival {
  const ipoib::wire::DataPacket& headers;
  std::size_t longest;        ///< bytes of payload of the longest packet
  std::uint8_t port;          ///< of the HCA, at which it has arrived
  std::uint32_t packets = 1;  ///< number that it stands for
  Qpn source{};               ///< the queue pair that has sent a datagram
};

class Admission {
 public:
  /// Both must outlive this object.
  Admission(const HcaPorts& ports, HcaCounters& counters) : ports_(ports), counters_(counters) {}

  /// Whether the port, which the HCA must have, is active and its MTU large enough.
  [[nodiscard]] bool enters(const Arrival& arrival) const;
  /// Whether LID and GID of a unicast packet are those of the port. Requires enters().
  [[nodiscard]] bool is_for_port(const Arrival& arrival) const;
  /// Whether the queue pair receives, uses this port, and is in the partition of the packet.
  [[nodiscard]] bool reaches(const QueuePair& qp, const Arrival& arrival) const;
  /// Whether the Q_Key of a datagram is that of the queue pair. Requires reaches().
  [[nodiscard]] bool admits(const QueuePair& qp, const Arrival& arrival, QKey key) const;
  /// Whether the queue pair has a port, and its P_Key admits that of the packet. Counts nothing.
  [[nodiscard]] bool shares_partition(const QueuePair& qp,
                                      const ipoib::wire::DataPacket& packet) const;
  /// Whether the queue pair can send packets: its port is active, and it has a valid P_Key.
  [[nodiscard]] bool leaves(const QueuePair& qp, std::size_t packets) const;

 private:
  void note(CheckedKey which, const Arrival& arrival, std::uint32_t key) const;

  const HcaPorts& ports_;
  HcaCounters& counters_;
};

}  // namespace softib::hca
