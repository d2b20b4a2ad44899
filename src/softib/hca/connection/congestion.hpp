// How many packets a connection of an Ethernet port may have in flight when switches mark its
// packets: a congestion notification halves their number, at most once in each round trip, and each
// window that is acknowledged adds one, as in TCP (RFC 5681). InfiniBand has credits instead.
#pragma once

#include <algorithm>
#include <cstdint>

#include "softib/hca/limits.hpp"
#include "wire/psn.hpp"

namespace softib::hca {

class Congestion {
 public:
  using Psn = ipoib::wire::Psn;

  /// The most packets in flight, of `window` without congestion.
  [[nodiscard]] std::uint32_t limit(std::uint32_t window) const { return std::min(limit_, window); }
  /// A notification has come while the packets from `unacked` to before `end` are in flight, of at
  /// most `window`.
  void notified(Psn unacked, Psn end, std::uint32_t window) {
    if (is_limited() && unacked - reduced_at_ < 0) return;
    limit_ = std::max(limit(window) / 2, 1U);
    reduced_at_ = end;
    acknowledged_ = 0;
  }
  /// So many packets have been acknowledged.
  void acknowledged(std::uint32_t packets) {
    acknowledged_ += packets;
    for (; is_limited() && acknowledged_ >= limit_; ++limit_) acknowledged_ -= limit_;
  }

 private:
  [[nodiscard]] bool is_limited() const { return limit_ < kWindowPackets; }

  std::uint32_t limit_ = kWindowPackets;
  std::uint32_t acknowledged_ = 0;  ///< since the limit has changed
  Psn reduced_at_;                  ///< what was sent before may bring further notifications
};

}  // namespace softib::hca
