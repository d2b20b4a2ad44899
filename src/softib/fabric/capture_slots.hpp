// Who captures the packets of a node: a word for each node in the fabric file, which the subnet
// process writes and the processes of the node read.
//
//   | received 1 | id 15 | ... |     a slot of 16 bits for each capture; id 0: none
//
// The process that captures listens at capture_name(id) in the subnet's folder, and those of the
// node connect to it (endpoint/live_captures.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib::fabric {

/// Captures of a whole subnet at a time.
inline constexpr std::size_t kMaxCaptures = 4;

/// A capture of a subnet; ids are chosen at random, from 1 on.
using CaptureId = std::uint16_t;
inline constexpr CaptureId kMaxCaptureId = 0x7fff;

/// The socket of a capture in the subnet's folder.
inline constexpr std::string_view kCaptureNamePrefix = "capture.";
[[nodiscard]] inline std::string capture_name(CaptureId id) {
  return std::string(kCaptureNamePrefix) + std::to_string(id);
}

/// What a node has to pass on to a capture.
struct NodeCapture {
  CaptureId id = 0;
  bool received = false;  ///< also the packets that it receives, besides those that it sends
  friend bool operator==(const NodeCapture&, const NodeCapture&) = default;
};

/// At most kMaxCaptures.
using NodeCaptures = std::vector<NodeCapture>;

/// The word of the captures of a node.
[[nodiscard]] inline std::uint64_t encode(const NodeCaptures& captures) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < captures.size() && i < kMaxCaptures; ++i) {
    const auto slot = std::uint64_t{captures[i].id} | std::uint64_t{captures[i].received} << 15;
    word |= slot << (16 * i);
  }
  return word;
}

/// Of any word: other processes may have written it.
[[nodiscard]] inline NodeCaptures decode_captures(std::uint64_t word) {
  NodeCaptures captures;
  for (; word != 0; word >>= 16) {
    const auto id = static_cast<CaptureId>(word & kMaxCaptureId);
    if (id != 0) captures.push_back({id, (word >> 15 & 1) != 0});
  }
  return captures;
}

}  // namespace softib::fabric
