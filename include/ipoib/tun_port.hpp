// Seam: the host side of an interface, a TUN device.
// Implemented by src/linux, and by an in-memory queue in tests/sim.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

/// The pools for packets from the host.
struct HostPools {
  FramePool& packets;  ///< for packets up to the link's MTU
  FramePool& large;    ///< for larger packets
};

class TunPort {
 public:
  virtual ~TunPort() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Reads IP packets from the host and appends them to `out`, with `headroom` bytes before each:
  /// up to `limit`, fewer if they are large. Returns false if the host has no more.
  virtual bool read(const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
                    std::size_t limit) = 0;
  /// Writes an IP packet to the host. Returns false if the host does not accept it (down, no
  /// memory).
  virtual bool write(ConstBytes packet) = 0;
  /// Whether the host accepts large packets of this kind.
  [[nodiscard]] virtual bool accepts(Segmentation::Kind kind) const = 0;
  /// Like write(), for a large packet in at most kMaxSegments pieces, with a partial checksum.
  virtual bool write_large(std::span<const ConstBytes> pieces, const Segmentation& how) = 0;
  [[nodiscard]] virtual Result<void> set_mtu(std::uint32_t mtu) = 0;
  [[nodiscard]] virtual Result<void> set_carrier(bool on) = 0;
};

}  // namespace ipoib
