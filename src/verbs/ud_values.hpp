// What a UD queue pair is made of, told and asked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ipoib/address.hpp"

namespace ipoib::verbs {

/// Depths of the work queues, in work requests; less where the device has less, and the send queue
/// a power of two. What a device does with a send, in octets of payload.
struct QueueDepths {
  std::uint32_t receive = 512;
  std::uint32_t send = 512;
  std::uint32_t inline_octets = 128;
  std::uint32_t large_octets = 65536;  ///< cut into segments by the device (IBV_WR_TSO)
};

/// One completion for the sends of so many datagrams, or for a chain of more: while there are
/// fewer, they hold their frames and address handles, and wake nobody.
inline constexpr std::size_t kSignalPeriod = 16;

/// Written by the thread that owns the queue pair.
struct UdCounters {
  std::uint64_t receive_errors = 0;   ///< completions with an error status, flushes apart
  std::uint64_t send_errors = 0;      ///< same
  std::uint64_t sends_flushed = 0;    ///< given back by an error or a reset, not known to have gone
  std::uint64_t receives_lost = 0;    ///< completed, and not fetched before a reset
  std::uint64_t malformed = 0;        ///< no room for GRH and encapsulation header, or a bad GRH
  std::uint64_t send_queue_full = 0;  ///< calls of send() that could not post everything
  std::uint64_t receive_starved = 0;  ///< times when no frame was free for a receive
  std::uint64_t post_refused = 0;     ///< ibv_post_send or ibv_post_recv failed
  std::uint64_t bring_ups = 0;
  std::uint64_t large_packets = 0;  ///< cut into segments
  std::uint64_t segments = 0;       ///< that these were cut into
};

/// A group to whose datagrams a queue pair listens.
struct GroupAttachment {
  Gid mgid;
  Lid mlid;
  friend bool operator==(const GroupAttachment&, const GroupAttachment&) = default;
};

}  // namespace ipoib::verbs
