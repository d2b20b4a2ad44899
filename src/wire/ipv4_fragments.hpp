// Fragmentation of IPv4 packets (RFC 791, 2.3 and 3.2).
#pragma once

#include <array>
#include <cstdint>

#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// The smallest MTU of IPv4 (RFC 791, 3.2): the longest header, and eight bytes of payload.
inline constexpr std::size_t kMinIpv4Mtu = 68;

/// Whether the packet is an IPv4 packet that routers may fragment: one without DF.
[[nodiscard]] bool may_fragment(ConstBytes packet);

/// Writes the fragments of one packet. Each has a copy of the packet's header; only the first has
/// the options that are not to be copied. A fragment can be fragmented again.
class Ipv4Fragmenter {
 public:
  /// `packet` is valid, and outlives the fragmenter; `mtu` is at least kMinIpv4Mtu.
  Ipv4Fragmenter(ConstBytes packet, std::size_t mtu);

  [[nodiscard]] bool done() const { return at_ == payload_.size(); }
  /// Writes the next fragment to `to`, which has room for `mtu` bytes; returns its size.
  std::size_t next(MutableBytes to);

 private:
  [[nodiscard]] ConstBytes header() const;

  ConstBytes first_header_;
  ConstBytes payload_;
  std::array<std::uint8_t, 60> later_header_{};
  std::size_t later_size_ = 0;
  std::size_t mtu_;
  std::size_t at_ = 0;  ///< in the payload
};

}  // namespace ipoib::wire
