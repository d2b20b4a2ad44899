#include "daemon/pools.hpp"

#include "link/link.hpp"

namespace ipoib::daemon {

namespace {

// Frames being read from the host, beyond those parked and posted.
constexpr std::size_t kSpareFrames = 2 * kBatch;
// Large frames beyond those parked: as many as the send queue holds, and spare ones.
constexpr std::size_t kLargeFrames = 48;
constexpr std::size_t kMessages = 1024;
constexpr std::size_t kLargest = link::kHeadroom + 65535;

}  // namespace

Pools::Pools(std::uint32_t max_mtu, const link::Config& link, const verbs::QueueDepths& depths)
    : host(link.limits.parked + link.limits.parked_replies + depths.send + kSpareFrames, max_mtu),
      large(kLargeFrames + link.limits.parked_bytes / kLargest, kLargest),
      messages(kMessages, link::kMessageSize) {}

}  // namespace ipoib::daemon
