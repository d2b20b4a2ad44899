// The VLANs of a TAP: the TAP's thread passes frames of each VLAN, without their tags, to the
// thread of that VLAN's interface, which writes its frames to the TAP itself, with the tag.
//
//   TAP ---- PacketReader ---- untagged frames ------ interface of the TAP's own partition
//    |             +---------- take() ---- queue ---- VlanPort, interface of another partition
//    +------------------------ write() --------------------+
//
// A queue is a pair of sockets, so that a VLAN's interface reads it like a TAP. Frames that find
// the queue full are dropped, as are those that come while nobody reads it. The TAP may disappear
// and come back; meanwhile, nothing can be written to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <span>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/frame.hpp"
#include "ipoib/segmentation.hpp"
#include "ipoib/vlan_id.hpp"
#include "linux/virtio_header.hpp"

namespace ipoib::linux {

/// The large packets that a TAP accepts, see TunPort::accepts().
struct LargePackets {
  bool tcp = false;
  bool udp = false;

  [[nodiscard]] bool contains(Segmentation::Kind kind) const {
    return kind == Segmentation::Kind::tcp ? tcp : udp;
  }
};

class VlanTrunk {
 public:
  /// Bytes of memory that the kernel uses for a queue, as far as it permits.
  static constexpr int kQueueBytes = 1024 * 1024;

  /// Throws std::system_error if the process has no descriptor left.
  explicit VlanTrunk(std::span<const VlanId> vlans);

  // --- The TAP ---------------------------------------------------------------------------------
  /// The TAP can be written from now on, until detach() of the same descriptor.
  void attach(int tap, LargePackets accepted);
  void detach(int tap);
  /// Passes a frame with the tag of one of the VLANs on; otherwise returns false. Removes the tag
  /// of VLAN 0, so that the frame is like one without.
  [[nodiscard]] bool take(VirtioHeader& header, Frame& frame);
  /// Frames that were dropped because the queue was full, or nobody read it.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // --- An interface of a VLAN. Only one at a time has a VLAN open. -----------------------------
  void open(VlanId vlan);  ///< discards frames that are left in the queue
  void close(VlanId vlan);
  [[nodiscard]] int queue_of(VlanId vlan) const { return queues_.at(vlan).read.get(); }
  /// The TAP's descriptor; negative if there is none.
  [[nodiscard]] int tap() const;
  [[nodiscard]] LargePackets accepted() const;
  /// Writes a packet whose Ethernet header lies before the first piece, with at most kMaxSegments
  /// pieces. `header` is that of the packet. Returns false if the host refuses it.
  [[nodiscard]] bool write(VlanId vlan, const VirtioHeader& header,
                           std::span<const ConstBytes> pieces);

 private:
  struct Queue {
    FileDescriptor write;
    FileDescriptor read;
    std::atomic<bool> is_open = false;
  };

  std::map<VlanId, Queue> queues_;  ///< never changes
  std::atomic<std::uint64_t> dropped_ = 0;
  /// Shared by writers, so that nobody writes to a descriptor that was closed.
  mutable std::shared_mutex mutex_;
  int tap_ = -1;
  LargePackets accepted_;
};

}  // namespace ipoib::linux
