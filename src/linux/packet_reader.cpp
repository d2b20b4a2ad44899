#include "linux/packet_reader.hpp"

#include <sys/uio.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "linux/virtio_header.hpp"
#include "linux/vlan_trunk.hpp"

namespace ipoib::linux {

namespace {

// Limits the data of one batch to the size of the CPU cache.
constexpr std::size_t kLargePacketsPerRead = 4;

// Frames of VLANs do not count as packets, but the caller has other things to do.
constexpr std::size_t kVlanFramesPerRead = 64;

}  // namespace

bool PacketReader::read(int descriptor, const HostPools& pools, std::size_t headroom,
                        std::vector<Frame>& out, std::size_t limit) {
  std::size_t count = 0;
  std::size_t large = 0;
  std::size_t of_vlans = 0;
  while (count < limit && large < kLargePacketsPerRead && of_vlans < kVlanFramesPerRead) {
    switch (read_one(descriptor, pools, headroom, out)) {
      case Outcome::packet:
        ++count;
        break;
      case Outcome::large_packet:
        ++count;
        ++large;
        break;
      case Outcome::of_vlan:
        ++of_vlans;
        break;
      case Outcome::malformed:
        ++count;
        ++malformed_;
        break;
      case Outcome::no_frame:
        return true;
      case Outcome::nothing:
        return false;
    }
  }
  return true;
}

/// Reads one packet. What does not fit into the small frame goes into the large one, at the same
/// offset.
PacketReader::Outcome PacketReader::read_one(int descriptor, const HostPools& pools,
                                             std::size_t headroom, std::vector<Frame>& out) {
  const std::size_t link_header = is_ethernet_ ? wire::EthernetHeader::kSize : 0;
  const auto begin = headroom - link_header;
  const auto room = pools.packets.slot_size() - begin;
  const auto large_room = pools.large.slot_size() - begin;
  assert(link_header <= headroom && begin < pools.packets.slot_size() && room < large_room);
  Frame frame = pools.packets.take();
  Frame large = pools.large.take();
  if (!frame || !large) return Outcome::no_frame;
  frame.window(begin, room);
  large.window(begin, large_room);
  VirtioHeader header;
  const std::array<iovec, 3> pieces{
      iovec{&header, sizeof header},
      iovec{frame.bytes().data(), room},
      iovec{large.bytes().data() + room, large_room - room},
  };
  ssize_t got = 0;
  do {
    got = ::readv(descriptor, pieces.data(), static_cast<int>(pieces.size()));
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    is_gone_ = is_gone_ || errno == EBADFD;
    return errno == EINVAL ? Outcome::malformed
                           : Outcome::nothing;  // EINVAL: the kernel dropped it
  }
  if (static_cast<std::size_t>(got) < sizeof header) return Outcome::malformed;
  const std::size_t size = static_cast<std::size_t>(got) - sizeof header;
  const bool is_large = size > room;
  if (is_large) std::memcpy(large.bytes().data(), frame.bytes().data(), room);
  Frame& whole = is_large ? large : frame;
  whole.window(begin, size);
  if (trunk_ != nullptr && trunk_->take(header, whole)) return Outcome::of_vlan;
  const bool is_consistent =
      is_ethernet_ ? apply_header_to_ethernet(header, whole) : apply_header(header, whole);
  if (!is_consistent) return Outcome::malformed;
  out.push_back(std::move(whole));
  return is_large ? Outcome::large_packet : Outcome::packet;
}

}  // namespace ipoib::linux
