// Configuration and counters of a UD queue pair.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ipoib/address.hpp"

namespace ipoib::verbs {

/// Depths of the work queues, in work requests, and limits of sends, in bytes of payload. They are
/// reduced to what the device supports; the send queue is rounded down to a power of two.
struct QueueDepths {
  std::uint32_t receive = 512;
  std::uint32_t send = 512;
  std::uint32_t max_inline = 128;
  std::uint32_t max_tso = 65536;  ///< for IBV_WR_TSO
};

/// A send is signalled when this many datagrams were posted since the last signalled one. Until
/// then the sends hold their frames and address handles.
inline constexpr std::size_t kSignalPeriod = 16;

/// Counters of a queue pair, which the thread that owns it writes.
struct UdCounters {
  std::uint64_t receive_errors = 0;  ///< completions with an error status other than a flush
  std::uint64_t send_errors = 0;     ///< completions with an error status other than a flush
  std::uint64_t sends_flushed = 0;   ///< flushed by an error or a reset; may have been sent
  std::uint64_t receives_lost = 0;   ///< completed, but not polled before a reset
  std::uint64_t malformed = 0;  ///< too short for GRH and encapsulation header, or an invalid GRH
  std::uint64_t send_queue_full = 0;  ///< calls of send() that could not post everything
  std::uint64_t receive_starved = 0;  ///< how often no frame was free for a receive
  std::uint64_t post_refused = 0;     ///< ibv_post_send or ibv_post_recv failed
  std::uint64_t bring_ups = 0;
  std::uint64_t large_packets = 0;  ///< sent as segments
  std::uint64_t segments = 0;       ///< of large packets

  UdCounters& operator+=(const UdCounters& other) {
    receive_errors += other.receive_errors;
    send_errors += other.send_errors;
    sends_flushed += other.sends_flushed;
    receives_lost += other.receives_lost;
    malformed += other.malformed;
    send_queue_full += other.send_queue_full;
    receive_starved += other.receive_starved;
    post_refused += other.post_refused;
    bring_ups += other.bring_ups;
    large_packets += other.large_packets;
    segments += other.segments;
    return *this;
  }
};

/// A multicast group that a queue pair is attached to.
struct GroupAttachment {
  Gid mgid;
  Lid mlid;
  friend bool operator==(const GroupAttachment&, const GroupAttachment&) = default;
};

}  // namespace ipoib::verbs
