// The rings that lead into a process, and the taking of what is in them: by its engine, or by a
// thread that polls for its packets.
#pragma once

#include <mutex>
#include <vector>

#include "softib/transport/ring.hpp"
#include "softib/transport/wire.hpp"

namespace softib::transport {

/// What stands for this many packets is taken from one ring before it is the next one's turn, the
/// last of it whole.
inline constexpr std::size_t kPacketsAtATime = 64;

/// From any thread; packets come out of a ring in their order, whoever takes them.
class Arrivals {
 public:
  /// `receiver` gets the packets, in the thread that takes them.
  explicit Arrivals(WireReceiver& receiver) : receiver_(receiver) {}

  /// `sender` names the ring.
  void add(int sender, RingReader ring);
  /// Takes what is in a ring, and lets go of it; the sender is told how far that went.
  void remove(int sender);
  /// Lets go of all rings as they are.
  void clear();
  /// Takes kPacketsAtATime from each ring. False: there was nothing.
  bool take();
  /// Takes all that is in the rings now.
  void take_all();

 private:
  struct Arrival {
    int sender;
    RingReader ring;
  };
  bool take_from(RingReader& ring, std::size_t limit);

  WireReceiver& receiver_;
  std::mutex mutex_;
  std::vector<Arrival> rings_;
  std::vector<ArrivedPacket> packets_;
};

}  // namespace softib::transport
