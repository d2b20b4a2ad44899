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
inline constexpr std::size_t kSpareReceiveFrames = 128;
inline constexpr std::size_t kCacheLine = 64;

/// A work request's id is its send number, or this bit and its receive slot: the opcode of a failed
/// completion is not defined.
inline constexpr std::uint64_t kReceiveId = std::uint64_t{1} << 63;

[[nodiscard]] constexpr std::uint32_t receive_size(std::uint32_t max_mtu) {
  return static_cast<std::uint32_t>(wire::kGrhSize) + max_mtu;
}
/// Slots begin on cache lines.
[[nodiscard]] constexpr std::size_t receive_slot_size(std::uint32_t max_mtu) {
  return (receive_size(max_mtu) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace ipoib::verbs
