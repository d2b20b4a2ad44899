#include "link/unrouted_packets.hpp"

#include <utility>

namespace ipoib::link {

void UnroutedPackets::park(Packet&& packet, Counters& counters) {
  Packet taken = std::move(packet);
  const std::size_t bytes = taken.frame.capacity();
  const auto& limits = config_.limits;
  if (packets_.size() >= limits.unrouted || bytes_ + bytes > limits.unrouted_bytes) {
    return counters.add(Counter::drop_unrouted_limit);
  }
  bytes_ += bytes;
  packets_.push_back(std::move(taken));
}

std::deque<UnroutedPackets::Packet> UnroutedPackets::take() {
  bytes_ = 0;
  return std::exchange(packets_, {});
}

void UnroutedPackets::drop(Counter why, Counters& counters) {
  counters.add(why, packets_.size());
  (void)take();
}

}  // namespace ipoib::link
