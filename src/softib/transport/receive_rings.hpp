// The rings from which a process receives packets. Its engine reads them, and so does any thread
// that polls for completions.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "softib/core/adaptive_mutex.hpp"
#include "softib/transport/ring.hpp"
#include "softib/transport/wire.hpp"

namespace softib::transport {

/// At most this many packets (the last large one complete) are read from one ring before the next.
inline constexpr std::size_t kPollBudget = 64;

/// The rings. All methods may be called from any thread. The packets of one ring keep their order.
class ReceiveRings {
 public:
  /// `receiver` gets the packets, in the thread that reads them.
  explicit ReceiveRings(WireReceiver& receiver) : receiver_(receiver) {}

  /// `sender` identifies the ring for remove().
  void add(int sender, RingReader ring);
  /// Delivers the packets in a ring, then closes and drops it. The sender can see which packets
  /// were not taken.
  void remove(int sender);
  /// Closes and drops all rings without delivering the packets in them.
  void clear();
  /// Adds a source that is read with the rings, after it has called `change` while nobody reads.
  void set_source(PacketSource& source, const std::function<void()>& change);
  /// Delivers up to kPollBudget packets of each ring. Returns false if there were none.
  bool poll();
  /// Whether a sender has requested the engine since the last call.
  [[nodiscard]] bool take_requests();
  /// Delivers all packets that are in the rings at the time of the call. Returns their bytes.
  std::size_t drain();

 private:
  struct Entry {
    int sender;
    RingReader ring;
  };
  bool deliver(RingReader& ring, std::size_t limit);

  WireReceiver& receiver_;
  AdaptiveMutex mutex_;
  PacketSource* source_ = nullptr;
  std::vector<Entry> rings_;
  std::vector<ArrivedPacket> packets_;
};

}  // namespace softib::transport
