// Bounds and times of the RDMA connection manager of one process.
#pragma once

#include <chrono>
#include <cstdint>

#include "ipoib/time.hpp"

namespace softib::rdma_cm {

/// librdmacm indexes its IDs with 16 bits of a handle. Beyond them, create() fails with ENOMEM.
inline constexpr std::uint32_t kMaxIds = 65'535;
inline constexpr std::size_t kMaxChannels = 16'384;
/// Requests that a listener may have without an answer, unless it says otherwise.
inline constexpr unsigned kMaxBacklog = 1'024;

/// Linux' defaults of net.ipv4.ip_local_port_range and ip_unprivileged_port_start.
inline constexpr std::uint16_t kFirstEphemeralPort = 32'768;
inline constexpr std::uint16_t kLastEphemeralPort = 60'999;
inline constexpr std::uint16_t kFirstUnprivilegedPort = 1'024;

/// The times and retries in a REQ, as the kernel's: 4.3 s, 15 times.
inline constexpr std::uint8_t kResponseTimeout = 20;
inline constexpr std::uint8_t kMaxCmRetries = 15;
/// The most retries of a queue pair, a field of 3 bits.
inline constexpr std::uint8_t kMaxQpRetries = 7;

/// The time after which a request to the SA is sent again, until its time-out has passed.
inline constexpr ipoib::Duration kSaInterval = std::chrono::seconds(1);
/// How long a join or a leave may take, as in the kernel.
inline constexpr ipoib::Duration kJoinTimeout = std::chrono::seconds(3);
inline constexpr std::size_t kMaxJoins = 4'096;

/// The rate of paths of an Ethernet port: 40 Gbit/s (IBA 15.2.5.16).
inline constexpr std::uint8_t kEthernetRate = 7;
inline constexpr std::uint8_t kEthernetHopLimit = 64;

}  // namespace softib::rdma_cm
