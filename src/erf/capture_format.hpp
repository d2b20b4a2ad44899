// Captures of InfiniBand packets for tshark: pcap with ERF records (link type 197), which mark the
// packets as InfiniBand and contain their direction.
//
//   pcap record header 16 | ERF header 16 | LRH ... padding, ICRC 4, VCRC 2
//   ERF: | timestamp 8, little-endian 32.32 s | type 8 = 21 | flags 8 | rlen 16 | - 16 | wlen 16 |
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "ipoib/bytes.hpp"

namespace ipoib::erf {

/// The ERF interface number, by which tshark distinguishes the directions.
enum class Direction : std::uint8_t { sent = 0, received = 1 };

using WallTime = std::chrono::system_clock::time_point;

inline constexpr std::size_t kFileHeaderSize = 24;
/// The header of a file or stream.
[[nodiscard]] std::array<std::uint8_t, kFileHeaderSize> file_header();

/// Appends the record of a packet, which goes from LRH to padding, and computes its CRCs.
void append_record(std::vector<std::uint8_t>& to, ConstBytes packet, Direction direction,
                   WallTime when);
/// Size of the complete records in the first `size` bytes of `records`.
[[nodiscard]] std::size_t complete_size(ConstBytes records, std::size_t size);

}  // namespace ipoib::erf
