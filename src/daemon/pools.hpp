// Frames that an interface's pump gives to its link.
#pragma once

#include <cstdint>

#include "ipoib/frame.hpp"
#include "link/config.hpp"
#include "verbs/ud_values.hpp"

namespace ipoib::daemon {

/// Packets that one turn takes from either side before the other side has its turn. Segments are
/// put together within a batch: those of several large packets, of several flows, are to fit.
inline constexpr std::size_t kBatch = 128;

struct Pools {
  FramePool host;      ///< packets of the host, parked, posted or being read
  FramePool large;     ///< same, those that are to be cut into segments
  FramePool messages;  ///< that the link makes itself
  /// For packets of up to `max_mtu` octets, and `link` as it bounds what is parked.
  Pools(std::uint32_t max_mtu, const link::Config& link, const verbs::QueueDepths& depths);
};

}  // namespace ipoib::daemon
