// Seam: the host's side of an interface, a TUN device.
// Implemented by src/linux, and by a queue in memory in tests/sim.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

class TunPort {
 public:
  virtual ~TunPort() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Appends up to `limit` IP packets that the host sends, in frames of `pool` with `headroom`
  /// octets before the packet. Returns how many; 0 when there is none, or no free frame.
  virtual std::size_t read(FramePool& pool, std::size_t headroom, std::vector<Frame>& out,
                           std::size_t limit) = 0;
  /// Hands one IP packet to the host. False when the host does not take it (down, no memory).
  virtual bool write(ConstBytes packet) = 0;
  [[nodiscard]] virtual Result<void> set_mtu(std::uint32_t octets) = 0;
  [[nodiscard]] virtual Result<void> set_carrier(bool on) = 0;
};

}  // namespace ipoib
