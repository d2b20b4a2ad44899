// Fragments of the host's IPv4 packets that exceed an MTU.
#pragma once

#include <cstddef>
#include <vector>

#include "ipoib/frame.hpp"
#include "link/counters.hpp"

namespace ipoib::link {

/// Returns the fragments of an IP packet for which wire::may_fragment() holds, each at most `mtu`
/// bytes long, with room for the encapsulation header before it. A large packet is segmented first.
/// Counts the packet. If `pool` has too few frames, drops and counts all of them.
[[nodiscard]] std::vector<Frame> fragments_of(const Frame& packet, std::size_t mtu, FramePool& pool,
                                              Counters& counters);

}  // namespace ipoib::link
