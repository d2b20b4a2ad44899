// Reads packets with a virtio header (virtio_header.hpp) from a descriptor: that of a TUN or TAP,
// or of a VLAN of a TAP.
//
// A read offers a frame of the link's size, followed by the rest of a large frame, so that small
// packets are not copied.
#pragma once

#include <cstdint>
#include <vector>

#include "ipoib/tun_port.hpp"

namespace ipoib::linux {

class VlanTrunk;

class PacketReader {
 public:
  /// The device is an Ethernet one: frames have an Ethernet header.
  void expect_ethernet() { is_ethernet_ = true; }
  /// Passes frames of VLANs to `trunk`, which outlives this object.
  void pass_vlans_to(VlanTrunk& trunk) { trunk_ = &trunk; }

  /// See TunPort::read().
  bool read(int descriptor, const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
            std::size_t limit);
  /// Packets dropped because of an invalid virtio header.
  [[nodiscard]] std::uint64_t malformed() const { return malformed_; }
  /// Whether a read has shown that the device was deleted.
  [[nodiscard]] bool is_gone() const { return is_gone_; }

 private:
  enum class Outcome : std::uint8_t { packet, large_packet, of_vlan, malformed, no_frame, nothing };
  [[nodiscard]] Outcome read_one(int descriptor, const HostPools& pools, std::size_t headroom,
                                 std::vector<Frame>& out);

  bool is_ethernet_ = false;
  VlanTrunk* trunk_ = nullptr;  ///< null if frames of VLANs are like others
  bool is_gone_ = false;
  std::uint64_t malformed_ = 0;
};

}  // namespace ipoib::linux
