// Bounds of one emulated HCA as one process sees it; verbs report them as device attributes.
#pragma once

#include <cstdint>

#include "softib/core/packet_sink.hpp"

namespace softib::hca {

inline constexpr std::uint32_t kMaxQueuePairs = QpnLayout::kQpsPerSlot;
inline constexpr std::uint32_t kMaxQueueWr = 16384;  ///< work requests of one queue
inline constexpr std::uint32_t kMaxSge = OutgoingPacket::kMaxPieces;
inline constexpr std::uint32_t kMaxInline = 1024;       ///< octets of one work request
inline constexpr std::uint32_t kMaxTso = 65536;         ///< octets of payload of a large send
inline constexpr std::uint32_t kMaxTsoHeader = 256;     ///< octets of its headers
inline constexpr std::uint32_t kMaxTsoSegments = 256;   ///< that it is cut into
inline constexpr std::uint32_t kMaxLargeReceives = 64;  ///< of one queue pair
/// Octets that a large receive has room for: the GRH, and the largest of large sends.
inline constexpr std::uint32_t kLargeReceive = ipoib::wire::Grh::kSize + kMaxTsoHeader + kMaxTso;
inline constexpr std::uint32_t kMaxCompletionQueues = 1024;
inline constexpr std::uint32_t kMaxCqe = 1U << 18;  ///< entries of one completion queue
inline constexpr std::uint32_t kMaxProtectionDomains = 1024;
inline constexpr std::uint32_t kMaxMemoryRegions = 1U << 16;
inline constexpr std::uint32_t kMaxAddressHandles = 1U << 17;
inline constexpr std::uint32_t kMaxAttachedGroups = 1024;  ///< multicast groups with a queue pair
inline constexpr std::uint32_t kMaxAttachedQps = 128;      ///< queue pairs of one group
inline constexpr std::uint32_t kGidTableSize = 1;
/// A queue pair hands out what stands for this many packets in one go, and the last of it whole.
inline constexpr std::size_t kSendBatch = 32;
/// Events that wait for their taker; what comes on top is counted and lost.
inline constexpr std::size_t kMaxPendingEvents = 4096;

}  // namespace softib::hca
