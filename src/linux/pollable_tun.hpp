// Seam: a TunPort with what the loop of an interface needs besides packets. Implemented by
// TunDevice and VlanPort, and in memory by tests.
#pragma once

#include <cstdint>

#include "ipoib/tun_port.hpp"

namespace ipoib::linux {

/// Packets of the host that were dropped where they were read.
struct HostDrops {
  std::uint64_t malformed = 0;   ///< an invalid virtio header
  std::uint64_t vlan_queue = 0;  ///< of a VLAN whose interface did not take them
};

class PollableTun : public TunPort {
 public:
  [[nodiscard]] virtual HostDrops drops() const = 0;
  /// Sets the speed that ethtool(8) shows. Changes nothing if the kernel refuses it.
  virtual void set_speed(std::uint32_t mbps) = 0;
  /// Whether the interface is administratively up (IFF_UP).
  [[nodiscard]] virtual bool is_up() const = 0;
  /// Whether the interface was deleted, so that reads and writes fail.
  [[nodiscard]] virtual bool is_gone() const = 0;
};

}  // namespace ipoib::linux
