// Packets of the host that no route of the mirror covers. The kernel has found a route for them,
// which may be announced a moment later.
#pragma once

#include <cstddef>
#include <deque>

#include "ipoib/frame.hpp"
#include "ipoib/time.hpp"
#include "link/config.hpp"
#include "link/counters.hpp"

namespace ipoib::link {

class UnroutedPackets {
 public:
  struct Packet {
    Frame frame;
    TimePoint since;
  };

  explicit UnroutedPackets(const Config& config) : config_(config) {}

  /// Sets whether the mirror has all routes that the kernel has announced. Initially it has none.
  void set_known(bool known) { is_known_ = known; }
  /// When to decide about a packet that has waited since then: while the mirror is incomplete, it
  /// waits for longer.
  [[nodiscard]] TimePoint deadline_of(TimePoint since) const {
    return since + (is_known_ ? config_.route_wait : config_.route_wait_unknown);
  }

  /// Drops and counts the packet at a limit.
  void park(Packet&& packet, Counters& counters);
  /// Removes and returns all packets, in order.
  [[nodiscard]] std::deque<Packet> take();
  /// Drops all packets, each counted as `why`.
  void drop(Counter why, Counters& counters);
  [[nodiscard]] bool empty() const { return packets_.empty(); }
  [[nodiscard]] std::size_t size() const { return packets_.size(); }
  /// The deadline of the first packet; kNever if there is none.
  [[nodiscard]] TimePoint next_deadline() const {
    return packets_.empty() ? kNever : deadline_of(packets_.front().since);
  }

 private:
  const Config& config_;
  bool is_known_ = false;
  std::size_t bytes_ = 0;  ///< of the slots
  std::deque<Packet> packets_;
};

}  // namespace ipoib::link
