// How a receive buffer is laid out and named, and how many there are.
//
//   | GRH, or 40 octets of nothing | encapsulation header, packet: up to the MTU of the fabric |
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/encapsulation.hpp"

namespace ipoib::verbs {

/// Receives that are posted as one chain, once so many slots are idle.
inline constexpr std::size_t kReceiveChain = 32;
/// Frames beyond the posted ones: those that the link looks at while their slots are posted again.
inline constexpr std::uint32_t kSpareReceiveFrames = 128;
/// Receives for large packets that the device hands over as they were sent.
inline constexpr std::uint32_t kLargeReceives = 16;

/// A work request's id is its send number, or the first bit and its receive slot, or both and its
/// slot among the large ones: the opcode of a failed completion is not defined.
inline constexpr std::uint64_t kReceiveId = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kLargeReceiveId = kReceiveId | std::uint64_t{1} << 62;

[[nodiscard]] constexpr std::uint32_t receive_size(std::uint32_t max_mtu) {
  return static_cast<std::uint32_t>(wire::kGrhSize) + max_mtu;
}

}  // namespace ipoib::verbs
