// Seam: a TUN or TAP device, the host's side of an interface.
// Implemented by src/linux, and in memory by tests/sim.
//
// Packets are IP packets. On a TAP, the Ethernet header of each packet lies in the 14 bytes before
// it, in both directions; so a packet may also be one of another type. Of a large packet it lies
// before the first piece.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

/// Pools for packets read from the host.
struct HostPools {
  FramePool& packets;  ///< of the link's size
  FramePool& large;    ///< for packets that need segmentation
};

class TunPort {
 public:
  virtual ~TunPort() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Appends at most `limit` packets of the host, in frames of `pools` with `headroom` bytes before
  /// each; fewer if they are large. Returns false when the host has no more.
  virtual bool read(const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
                    std::size_t limit) = 0;
  /// Passes one packet to the host. Returns false if the host refuses it (down, no memory).
  virtual bool write(ConstBytes packet) = 0;
  /// Whether the host accepts packets of this kind that are larger than its MTU.
  [[nodiscard]] virtual bool accepts(Segmentation::Kind kind) const = 0;
  /// Passes a large packet with a partial checksum, in at most kMaxSegments pieces.
  virtual bool write_large(std::span<const ConstBytes> pieces, const Segmentation& how) = 0;
  [[nodiscard]] virtual Result<void> set_mtu(std::uint32_t bytes) = 0;
  [[nodiscard]] virtual Result<void> set_carrier(bool on) = 0;
};

}  // namespace ipoib
