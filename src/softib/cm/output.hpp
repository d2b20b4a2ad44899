// The output of the parts of the communication manager: MADs, events, counters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/cm/counters.hpp"
#include "softib/cm/events.hpp"
#include "softib/core/mad_packet.hpp"

namespace softib::cm {

/// The route of the MADs of a connection. A reply goes back along the route of the MAD that it
/// replies to (IBA 13.5.4).
struct Route {
  Lid slid;
  Lid dlid;
  ServiceLevel sl;
  PKey pkey = ipoib::kDefaultPKey;
  std::optional<wire::Grh> grh;
  std::uint8_t port = 1;  ///< of the HCA, by which the MADs leave

  /// The route along `path` from a port.
  [[nodiscard]] static Route along(const wire::PathRecord& path, const PortAttributes& port);
  [[nodiscard]] static Route back(const MadPacket& received);
  [[nodiscard]] MadPacket packet(const wire::CmMad& mad) const;
};

/// The transaction of a request of ours: unique among those that are outstanding.
constexpr std::uint64_t transaction_of(Handle handle, std::uint16_t attribute) {
  return std::uint64_t{handle.value()} << 32 | attribute;
}

/// A message that is sent until it is answered.
struct Repeated {
  MadPacket packet;
  unsigned left = 0;  ///< number of times that it is sent again
  ipoib::Duration interval{};
  ipoib::TimePoint deadline;
};

struct Output {
  std::vector<MadPacket> packets;
  std::vector<Event> events;
  Counters counters;

  /// Sends a message, and returns it as it was sent.
  const MadPacket& send(const Route& route, std::uint64_t transaction_id,
                        const wire::CmMessage& message);
  /// Sends a message of a kind that is known to be `Message` again.
  template <class Message>
  void send_again(const MadPacket& packet) {
    constexpr std::size_t kIndex = wire::CmMessage(Message()).index();
    ++counters.sent[kIndex];
    ++counters.retries[kIndex];
    packets.push_back(packet);
  }
  /// Sends a message again whose deadline has come. Returns false if it has been sent often enough.
  template <class Message>
  bool repeat(Repeated& message, ipoib::TimePoint now) {
    if (message.left == 0) return false;
    --message.left;
    message.deadline = now + message.interval;
    send_again<Message>(message.packet);
    return true;
  }
  void drop(Drop why) { ++counters.drops[static_cast<std::size_t>(why)]; }
};

}  // namespace softib::cm
