// Finds whether the ports of the daemon pass datagrams, and not only say that they are ACTIVE, as
// the ARP monitoring of bonding does for Ethernet.
//
// Both ports ask the SA of their subnet at the same time, over the fabric and back. A port whose
// request times out, with all its repetitions, is silent, if that of the other one was answered
// meanwhile; any answer counts. If neither is answered, the fault is not that of one port: the
// verdict stays. So a subnet manager that ends, or is slow, moves no interface.
//
// The SA is asked as seldom as for the silence of a broadcast group: on a large subnet less often.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/pump/port_role.hpp"
#include "ipoib/address.hpp"
#include "ipoib/time.hpp"

namespace ipoib::daemon {

class PathMonitor {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(2);
  /// The interval is not shorter than this for each LID that the ports know of.
  static constexpr Duration kIntervalPerLid = std::chrono::milliseconds(40);
  static constexpr Duration kLongestInterval = std::chrono::minutes(2);

  [[nodiscard]] static Duration interval(Lid highest) {
    return std::clamp<Duration>(highest.value() * kIntervalPerLid, kInterval, kLongestInterval);
  }

  /// Both ports can ask the SA of their subnet, and `highest` is the highest LID that they know of.
  /// Returns whether they are to ask now; on_result() follows for each.
  [[nodiscard]] bool begin(Lid highest, TimePoint now);
  /// The number of the last begin().
  [[nodiscard]] std::uint64_t round() const { return round_; }
  /// The SA has answered the request of this port, or it has timed out. Results of older rounds are
  /// ignored. Returns whether is_silent() has changed.
  bool on_result(PortRole role, std::uint64_t round, bool answered);
  /// One of the ports cannot ask. Neither is silent from now on. Returns whether is_silent() has
  /// changed.
  bool stop();
  [[nodiscard]] bool is_silent(PortRole role) const { return silent_[role]; }
  /// When to call begin() again.
  [[nodiscard]] TimePoint next_deadline() const { return due_; }

 private:
  std::uint64_t round_ = 0;
  TimePoint due_{};
  PerPort<std::optional<bool>> answered_;  ///< in this round
  PerPort<bool> silent_;
};

}  // namespace ipoib::daemon
