// Counters and histograms of the control protocol.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ipoib::control {

/// A counter by name: "tx_packets", "drop_path_failed".
struct Counter {
  std::string name;
  std::uint64_t value = 0;
  bool is_drop = false;   ///< counts dropped packets, for the reason that the name gives
  bool is_gauge = false;  ///< a present number, which may also become smaller
  friend bool operator==(const Counter&, const Counter&) = default;
};

/// Durations in buckets.
struct Histogram {
  std::string name;                   ///< "resolution_time"
  std::vector<std::uint64_t> bounds;  ///< upper bound of each bucket, ns, ascending; inclusive
  std::vector<std::uint64_t> counts;  ///< one more than bounds: the last is above all of them
  std::uint64_t sum = 0;              ///< of all durations, ns
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

}  // namespace ipoib::control
