// Limits of one emulated HCA in one process; verbs reports them as device attributes.
#pragma once

#include <chrono>
#include <cstdint>

#include "ipoib/time.hpp"
#include "softib/core/large_packet.hpp"

namespace softib::hca {

inline constexpr std::uint32_t kMaxQueuePairs = QpnLayout::kQpsPerSlot;
inline constexpr std::uint32_t kMaxQpn = 0xffffff;
inline constexpr std::uint32_t kMaxQueueWr = 16384;  ///< work requests per queue
inline constexpr std::uint32_t kMaxSge = OutgoingPacket::kMaxPieces;
inline constexpr std::uint32_t kMaxInline = 1024;       ///< bytes per work request
inline constexpr std::uint32_t kMaxLargeReceives = 64;  ///< per queue pair
/// Minimum buffer size of a large receive: the GRH and the largest large send.
inline constexpr std::uint32_t kLargeReceive = ipoib::wire::Grh::kSize + kMaxTsoHeader + kMaxTso;
inline constexpr std::uint32_t kMaxCompletionQueues = 2 * kMaxQueuePairs;
inline constexpr std::uint32_t kMaxCqe = (1U << 19) - 1;  ///< entries per completion queue
inline constexpr std::uint32_t kMaxSharedReceiveQueues = QpnLayout::kQpsPerSlot;
inline constexpr std::uint32_t kMaxXrcDomains = 1024;
inline constexpr std::uint32_t kMaxProtectionDomains = kMaxQueuePairs;
inline constexpr std::uint32_t kMaxMemoryRegions = 1U << 16;
inline constexpr std::size_t kMaxDeviceMemory = 1 << 18;        ///< bytes in a process
inline constexpr std::uint32_t kMaxDeviceMemoryAlignment = 12;  ///< log2
inline constexpr std::uint32_t kMaxAddressHandles = 1U << 17;
inline constexpr std::uint32_t kMaxAttachedGroups =
    1024;  ///< multicast groups with attached queue pairs
inline constexpr std::uint32_t kMaxAttachedQps = 128;  ///< queue pairs per group
/// READs and atomic operations outstanding on a connection, in each direction. Fits the 8 bits of
/// the CM's field.
inline constexpr std::uint8_t kMaxReads = 16;
inline constexpr std::uint32_t kMaxMessage = 1U << 31;  ///< bytes (IBA 9.7.2)
/// The most packets and bytes that a requester may have unacknowledged; READ responses count, too.
/// So one connection does not fill the ring to its peer, and acknowledgements pace it.
inline constexpr std::uint32_t kWindowPackets = 128;
inline constexpr std::uint32_t kWindowBytes = 1U << 18;
/// The least time between two congestion notifications of a connection.
inline constexpr ipoib::Duration kNotificationInterval = std::chrono::microseconds(50);
inline constexpr std::uint32_t kAtomicBytes = 8;  ///< operand of an atomic operation
/// Payload behind this many bytes that are not acknowledged is streamed (streaming_copy.hpp).
inline constexpr std::uint32_t kStreamedAfter = 1U << 16;
/// A longer READ is sent as several requests, so that responses do not outrun the requester.
inline constexpr std::uint32_t kReadBytes = 1U << 16;
/// As physical HCAs do, the HCA waits longer for an acknowledgement than the shortest timers say.
inline constexpr ipoib::Duration kMinAckTimeout = std::chrono::milliseconds(4);
/// When packets are offered again to a receiver that had no room. The receiver does not report
/// room: that would cost it a system call for each ring that it has read.
inline constexpr ipoib::Duration kRoomRetry = std::chrono::microseconds(100);
/// A batch of a queue pair ends when it counts at least this many packets (after segmentation).
inline constexpr std::size_t kSendBatch = 32;
/// Connections send so many packets, and a batch more at most, before others may use the HCA.
inline constexpr std::size_t kPacketsPerServe = 128;
/// Events beyond this number are dropped and counted.
inline constexpr std::size_t kMaxPendingEvents = 4096;

}  // namespace softib::hca
