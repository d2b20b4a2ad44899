// The interface between a process's HCA and the other processes of the subnet: Wire sends,
// WireReceiver receives. RingWire implements Wire. SocketEngine calls a WireReceiver, which
// Endpoint implements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/object_list.hpp"
#include "softib/core/packet_sink.hpp"

namespace softib::transport {

/// Identifies a process: the node of its HCA's first port, and its slot there.
struct ProcessAddress {
  NodeIndex node = 0;
  std::uint32_t slot = 0;
  friend auto operator<=>(const ProcessAddress&, const ProcessAddress&) = default;
};

/// A process, as distinct from one that has its slot later.
struct Process {
  ProcessAddress address;
  std::uint32_t epoch = 0;
};

enum class Delivery : std::uint8_t {
  delivered,
  no_process,   ///< no process has the slot
  congested,    ///< the receiver has not read its ring in time, or its messages
  refused,      ///< the system had no descriptor or memory for the connection
  unreachable,  ///< there is no route to the address
  too_long,     ///< the path takes only shorter packets
  lost,         ///< the receiver died while we sent
};

/// A MAD packet, LRH to padding, followed by its ICRC if `has_icrc`: the link has bit errors.
struct MadOnWire {
  ConstBytes bytes;
  bool has_icrc = false;
  std::uint8_t port = 1;  ///< of the HCA, at which it arrives
};

/// Whether a sender of packets to queue pairs may wait for room. The engine thread never blocks: it
/// drains the rings of its own process, so two engines that waited for each other would deadlock.
enum class SendMode : std::uint8_t {
  blocking,
  non_blocking,
  as_room_permits,  ///< does not wait either, and offers packets again that there was no room for
};

/// The sending side, for any thread. Packets that one thread sends to one process keep their order.
class Wire {
 public:
  virtual ~Wire() = default;
  /// Sends packets to queue pairs of one process, which arrive at port `port` of its HCA. Returns
  /// how many of them, from the first, were delivered; `why` says why the others were not. Adds to
  /// `lost` the number of packets that earlier calls delivered to a process that died before it
  /// read them.
  virtual std::size_t send(ProcessAddress to, std::uint8_t port,
                           std::span<const OutgoingPacket* const> packets, SendMode mode,
                           Delivery& why, std::uint64_t& lost) = 0;
  /// Sends a MAD, or drops it. It does not wait, since a process that answers many must not wait
  /// for one that does not read. For `lost` see send().
  virtual Delivery send_mad(ProcessAddress to, const MadOnWire& mad, std::uint64_t& lost) = 0;
  /// Wakes the engine of a process. Returns false if the system had no descriptor or memory for
  /// that; then a process may be there that has not been woken. For `lost` see send().
  [[nodiscard]] virtual bool wake(ProcessAddress to, std::uint64_t& lost) = 0;
  /// Whether a process lives and has not taken all packets that were sent to it. Then its engine is
  /// made to take them, since nobody may be waiting for them.
  [[nodiscard]] virtual bool has_untaken(ProcessAddress process) = 0;
  /// Reports the end of the connection to a process (WireReceiver::connections_ended()), once; at
  /// once if there is none.
  virtual void watch(ProcessAddress process) = 0;
};

/// Sends what leaves the host: the packets of an Ethernet port, which are routed by their GRH.
class Uplink {
 public:
  virtual ~Uplink() = default;
  /// Whether a GID is one of the port.
  [[nodiscard]] virtual bool is_own(const Gid& gid) const = 0;
  /// Sends packets in order. Returns how many of them, from the first, are done with; `why` says
  /// why the next one was not sent.
  virtual std::size_t send(std::span<const OutgoingPacket* const> packets, SendMode mode,
                           Delivery& why) = 0;
};

/// A source of packets beside the rings, whose descriptors the engine waits for.
class PacketSource {
 public:
  virtual ~PacketSource() = default;
  /// Delivers packets that have come, a limited number. Returns their bytes. Never called by two
  /// threads at a time.
  virtual std::size_t poll() = 0;
  /// Readable when a packet waits. Always the same.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// The same without packets that are responses to the requests of connections.
  [[nodiscard]] virtual int descriptor_of_others() const = 0;
};

/// The receiving side, called by the engine thread, except where stated otherwise.
class WireReceiver {
 public:
  virtual ~WireReceiver() = default;
  /// Packets for queue pairs. Their bytes are valid only during the call, and their sender may
  /// change them meanwhile. Called by the engine or by a thread that polls the receive rings, never
  /// by two threads at a time.
  virtual void arrived(std::span<const ArrivedPacket> packets) = 0;
  /// A MAD has come. Its ICRC, if any, has not been checked.
  virtual void mad_arrived(const MadOnWire& mad) = 0;
  /// A message was malformed, or a ring corrupt.
  virtual void malformed() = 0;
  /// No descriptor is left for a new sender; it waits in the listen queue.
  virtual void accept_paused() = 0;
  /// Connections to these processes, which were watched, have ended, or could not be made: the
  /// process has died, or one of the two had no descriptor left. It may be reported more than once.
  virtual void connections_ended(std::span<const Process> processes) = 0;
  /// The other end of a descriptor has been closed (SocketEngine::watch_hangup()).
  virtual void hung_up(int /*fd*/) {}
  /// Another process asks for objects of the HCA.
  [[nodiscard]] virtual ObjectPage objects(const ObjectRequest& /*request*/) { return {}; }
  /// The engine has finished an iteration of its loop.
  virtual void turn_done() = 0;
  /// The deadline of SocketEngine::set_deadline() has passed.
  virtual void deadline(ipoib::TimePoint now) = 0;
};

}  // namespace softib::transport
