#include "daemon/pump/pools.hpp"

#include <algorithm>

#include "ethernet/view.hpp"
#include "link/link.hpp"

namespace ipoib::daemon {

namespace {

// Frames being read from the host, beyond those parked and posted.
constexpr std::size_t kSpareFrames = 2 * kBatch;
// Large frames beyond those parked: as many as the send queue holds, and spare ones.
constexpr std::size_t kLargeFrames = 48;
constexpr std::size_t kMessages = 1024;
constexpr std::size_t kLargest = ethernet::View::kHeadroom + 65535;
constexpr std::size_t kMessage = std::max(link::kMessageSize, ethernet::View::kMessageSize);

}  // namespace

Pools::Pools(std::size_t packet_size, const link::Config& link, const verbs::QueueDepths& depths)
    : host(link.limits.parked + link.limits.parked_replies + depths.send + kSpareFrames,
           packet_size),
      large(kLargeFrames + link.limits.parked_bytes / kLargest, kLargest),
      messages(kMessages, kMessage) {}

}  // namespace ipoib::daemon
