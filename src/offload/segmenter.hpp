// Large packets of the host: how they are to be cut, and what is to be known for that.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/frame.hpp"
#include "wire/segmenter.hpp"

namespace ipoib::offload {

/// Of the headers of a packet that is cut; one with more extension headers is not taken.
inline constexpr std::size_t kMaxHeaders = 252;

/// `packet` begins with its IP header. Nothing unless the headers are what `kind` says, begin and
/// end where they can, and there are at most kMaxSegments segments of `size` octets.
[[nodiscard]] std::optional<Segmentation> plan_segments(ConstBytes packet, Segmentation::Kind kind,
                                                        std::size_t transport, std::size_t size);

/// Completes a checksum that whoever wrote the packet has left partial: from `start` to the end,
/// into the field `offset` octets behind `start`. False when these are not in the packet.
[[nodiscard]] bool complete_checksum(MutableBytes packet, std::size_t start, std::size_t offset);

/// TCP or UDP is right behind a plain IP header, where devices look for it; `ip` is where that is.
[[nodiscard]] bool is_plain(const Frame& large, std::size_t ip);

/// `large` outlives what is returned and stays as it is: its IP header at `ip` from the front, its
/// checksum partial: the sum of the pseudo-header. With `device_sums` the checksums of the segments
/// are left to the device where that can find them (is_plain()).
[[nodiscard]] wire::Segmenter segmenter_of(const Frame& large, std::size_t ip,
                                           bool device_sums = false);

}  // namespace ipoib::offload
