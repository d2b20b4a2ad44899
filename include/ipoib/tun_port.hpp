// Seam: the host's side of an interface, a TUN device.
// Implemented by src/linux, and by a queue in memory in tests/sim.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

/// Where packets of the host are read to.
struct HostPools {
  FramePool& packets;  ///< of the link's MTU
  FramePool& large;    ///< that are to be cut, or do not fit
};

class TunPort {
 public:
  virtual ~TunPort() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Appends IP packets that the host sends, in frames of `pools` with `headroom` octets before
  /// each: up to `limit`, less where they are large. False when the host has no more of them.
  virtual bool read(const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
                    std::size_t limit) = 0;
  /// Hands one IP packet to the host. False when the host does not take it (down, no memory).
  virtual bool write(ConstBytes packet) = 0;
  /// Whether the host takes packets of this kind that are larger than its MTU.
  [[nodiscard]] virtual bool takes(Segmentation::Kind kind) const = 0;
  /// Same as write(), with a large packet in at most kMaxSegments pieces, its checksum partial.
  virtual bool write_large(std::span<const ConstBytes> pieces, const Segmentation& how) = 0;
  [[nodiscard]] virtual Result<void> set_mtu(std::uint32_t octets) = 0;
  [[nodiscard]] virtual Result<void> set_carrier(bool on) = 0;
};

}  // namespace ipoib
