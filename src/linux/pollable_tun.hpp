// Seam: a TunPort with what the loop of an interface needs besides packets. Implemented by
// TunDevice, and in memory by tests.
#pragma once

#include <cstdint>

#include "ipoib/tun_port.hpp"

namespace ipoib::host {

class PollableTun : public TunPort {
 public:
  /// Packets dropped because of an invalid virtio header.
  [[nodiscard]] virtual std::uint64_t malformed() const = 0;
  /// Whether the interface is administratively up (IFF_UP).
  [[nodiscard]] virtual bool is_up() const = 0;
  /// The interface was deleted; reads and writes fail from now on.
  [[nodiscard]] virtual bool is_gone() const = 0;
};

}  // namespace ipoib::host
