// The layout, identifiers and numbers of receive buffers.
//
//   | GRH, or 40 unused bytes | encapsulation header, packet: up to the MTU of the fabric |
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/encapsulation.hpp"

namespace ipoib::verbs {

/// Receives are posted as one chain when this many slots are idle.
inline constexpr std::size_t kReceiveChain = 32;
/// Frames beyond the posted ones: the link processes them while their slots are posted again.
inline constexpr std::uint32_t kSpareReceiveFrames = 128;
/// Receives for large packets that the device delivers without segmenting them.
inline constexpr std::uint32_t kLargeReceives = 16;

/// The id of a work request is the number of a send, or these flags and the slot of a receive or a
/// large receive. (The opcode of a failed completion is undefined.)
inline constexpr std::uint64_t kReceiveId = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kLargeReceiveId = kReceiveId | std::uint64_t{1} << 62;

[[nodiscard]] constexpr std::uint32_t receive_size(std::uint32_t max_mtu) {
  return static_cast<std::uint32_t>(wire::kGrhSize) + max_mtu;
}

}  // namespace ipoib::verbs
