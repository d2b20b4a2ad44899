// The header before each packet of a TUN (linux/virtio_net.h; virtio 1.2, 5.1.6): checksum and
// segmentation that the sender leaves to the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ipoib/frame.hpp"
#include "wire/ethernet.hpp"

namespace ipoib::linux {

/// struct virtio_net_hdr of linux/virtio_net.h, which does not compile as C++.
struct VirtioHeader {
  std::uint8_t flags = 0;
  std::uint8_t gso_type = 0;
  std::uint16_t hdr_len = 0;
  std::uint16_t gso_size = 0;
  std::uint16_t csum_start = 0;
  std::uint16_t csum_offset = 0;
};
static_assert(sizeof(VirtioHeader) == 10);

namespace virtio {
inline constexpr std::uint8_t kNeedsChecksum = 1;  ///< in flags
// Values of gso_type.
inline constexpr std::uint8_t kNone = 0;
inline constexpr std::uint8_t kTcpOverIpv4 = 1;
inline constexpr std::uint8_t kTcpOverIpv6 = 4;
inline constexpr std::uint8_t kUdp = 5;  ///< from Linux 6.2
inline constexpr std::uint8_t kEcn = 0x80;
}  // namespace virtio

/// Does what `header` asks for: completes the checksum of the packet in `frame`, or sets how the
/// frame is to be segmented. Returns false if header and packet are inconsistent.
[[nodiscard]] bool apply_header(const VirtioHeader& header, Frame& frame);
/// Applies the header of an Ethernet frame, whose own header is removed from the frame's window.
[[nodiscard]] bool apply_header_to_ethernet(const VirtioHeader& header, Frame& frame);
/// The header for the packet with `count` more bytes before it.
[[nodiscard]] VirtioHeader moved_by(std::size_t count, VirtioHeader header);
/// Removes the tag of a VLAN from an Ethernet frame. Returns it; nullopt if there is none, or if
/// `header` does not fit such a frame.
[[nodiscard]] std::optional<wire::VlanTag> remove_tag(VirtioHeader& header, Frame& frame);
/// The header for a large packet, whose headers are in `first`.
[[nodiscard]] VirtioHeader header_of(ConstBytes first, const Segmentation& how);

}  // namespace ipoib::linux
