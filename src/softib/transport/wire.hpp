// Seam: how packets get from one process to the process in another place of the subnet.
// Implemented by RingWire and SocketEngine.
#pragma once

#include <cstdint>
#include <span>

#include "ipoib/time.hpp"
#include "softib/core/packet_sink.hpp"

namespace softib::transport {

/// Where a process is to be found.
struct PlaceAddress {
  NodeIndex node = 0;
  std::uint32_t place = 0;
  friend auto operator<=>(const PlaceAddress&, const PlaceAddress&) = default;
};

enum class Delivery : std::uint8_t {
  delivered,
  empty_place,  ///< nobody lives there
  congested,    ///< did not drain in time
  refused,      ///< the system had no descriptor or memory for it
  lost,         ///< died while we sent
};

/// Whether a sender may wait for a congested receiver. The engine never does: it is the one who
/// drains when nobody else does, and two engines that wait for each other would wait for ever.
enum class Patience : std::uint8_t { wait, never_wait };

/// The way out. From any thread; packets of one thread to one place keep their order.
class Wire {
 public:
  virtual ~Wire() = default;
  /// Sends packets for queue pairs to one place. Returns how many were delivered, from the front,
  /// and sets `why` for the rest. Adds to `lost` those that were delivered by earlier calls to a
  /// process that has died before it took them.
  virtual std::size_t send(PlaceAddress to, std::span<const OutgoingPacket* const> packets,
                           Patience patience, Delivery& why, std::uint64_t& lost) = 0;
  /// Sends a packet of a MAD, LRH to padding. `lost`: as above.
  virtual Delivery send_mad(PlaceAddress to, ConstBytes packet, Patience patience,
                            std::uint64_t& lost) = 0;
  /// Wakes the engine there. False: the system had nothing for it, and somebody may live there
  /// who has not been woken. `lost`: as above.
  [[nodiscard]] virtual bool nudge(PlaceAddress to, std::uint64_t& lost) = 0;
};

/// The way in; called by the engine thread.
class WireReceiver {
 public:
  virtual ~WireReceiver() = default;
  /// Packets for queue pairs, from anybody; their octets are valid only during the
  /// call, and may change meanwhile. By the engine, or by who takes arrivals; by one at a time.
  virtual void arrived(std::span<const ArrivedPacket> packets) = 0;
  /// A packet of a MAD, LRH to padding.
  virtual void mad_arrived(ConstBytes packet) = 0;
  /// Something that was no packet.
  virtual void malformed() = 0;
  /// A sender of packets is gone, and may have died between taking on to wake somebody (see Door)
  /// and doing so: who is to be woken is to be appointed again. What has come is taken afterwards.
  virtual void sender_gone() = 0;
  /// There was no descriptor left for a new sender; it waits.
  virtual void accept_paused() = 0;
  /// After each turn of the engine, whatever woke it.
  virtual void turned() = 0;
  /// The engine's deadline has come.
  virtual void deadline(ipoib::TimePoint now) = 0;
};

}  // namespace softib::transport
