// Frame pools of an interface on one of its ports.
#pragma once

#include <cstdint>

#include "ipoib/frame.hpp"
#include "link/config.hpp"
#include "verbs/ud_values.hpp"

namespace ipoib::daemon {

/// Packets that one turn takes from one side before it serves the other. Segments are coalesced
/// within a batch, so it has room for those of several large packets and flows.
inline constexpr std::size_t kBatch = 128;

struct Pools {
  FramePool host;      ///< packets of the host: parked, posted or being read
  FramePool large;     ///< the same for large packets
  FramePool messages;  ///< messages of the link
  /// `packet_size` is that of the largest packet that is not large, with its headroom; `link`
  /// bounds the number of parked frames.
  Pools(std::size_t packet_size, const link::Config& link, const verbs::QueueDepths& depths);
};

}  // namespace ipoib::daemon
