#include "linux/vlan_trunk.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>

#include "linux/packet_writer.hpp"
#include "wire/ethernet.hpp"

namespace ipoib::linux {

namespace {

/// Sets the size of a queue. Only a privileged process may exceed the limit of the machine
/// (net.core.wmem_max).
void set_size(int socket) {
  const int bytes = VlanTrunk::kQueueBytes;
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == 0) return;
  (void)::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

}  // namespace

VlanTrunk::VlanTrunk(std::span<const VlanId> vlans) {
  for (const VlanId vlan : vlans) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0) {
      throw std::system_error(errno, std::generic_category(), "queue of a VLAN");
    }
    auto& queue = queues_[vlan];
    queue.write.reset(pair[0]);
    queue.read.reset(pair[1]);
    set_size(queue.write.get());
  }
}

// --- The TAP ------------------------------------------------------------------------------------

void VlanTrunk::attach(int tap, LargePackets accepted) {
  const std::unique_lock lock(mutex_);
  tap_ = tap;
  accepted_ = accepted;
}

void VlanTrunk::detach(int tap) {
  const std::unique_lock lock(mutex_);
  if (tap_ != tap) return;
  tap_ = -1;
  accepted_ = {};
}

bool VlanTrunk::take(VirtioHeader& header, Frame& frame) {
  const auto tag = wire::VlanTag::parse(std::as_const(frame).bytes());
  if (!tag) return false;
  const auto found = queues_.find(tag->vlan);
  const bool is_known = found != queues_.end();
  if (!is_known && tag->vlan != kNoVlan) return false;
  if (!remove_tag(header, frame) || !is_known) return false;
  auto& [vlan, queue] = *found;
  const bool passed =
      queue.is_open.load(std::memory_order_relaxed) &&
      write_packet(queue.write.get(),
                   std::array{iovec{&header, sizeof header}, piece(std::as_const(frame).bytes())});
  if (!passed) dropped_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// --- An interface of a VLAN ---------------------------------------------------------------------

void VlanTrunk::open(VlanId vlan) {
  auto& queue = queues_.at(vlan);
  std::uint8_t rest = 0;  // of a packet, which is longer
  while (::recv(queue.read.get(), &rest, sizeof rest, 0) >= 0) {
  }
  queue.is_open = true;
}

void VlanTrunk::close(VlanId vlan) { queues_.at(vlan).is_open = false; }

int VlanTrunk::tap() const {
  const std::shared_lock lock(mutex_);
  return tap_;
}

LargePackets VlanTrunk::accepted() const {
  const std::shared_lock lock(mutex_);
  return accepted_;
}

bool VlanTrunk::write(VlanId vlan, const VirtioHeader& header, std::span<const ConstBytes> pieces) {
  using wire::EthernetHeader;
  using wire::VlanTag;
  assert(!pieces.empty() && pieces.size() <= kMaxSegments);
  std::array<std::uint8_t, VlanTag::kSize> tag;
  VlanTag{.vlan = vlan}.emit(tag.data());
  const bool is_partial = (header.flags & virtio::kNeedsChecksum) != 0;
  VirtioHeader moved =
      is_partial ? moved_by(EthernetHeader::kSize + VlanTag::kSize, header) : header;
  constexpr std::size_t kType = EthernetHeader::kSize - VlanTag::kOffset;
  const ConstBytes first = pieces.front();
  const auto* const ethernet = first.data() - EthernetHeader::kSize;
  std::array<iovec, 3 + kMaxSegments> all;
  all[0] = {&moved, sizeof moved};
  all[1] = piece({ethernet, VlanTag::kOffset});
  all[2] = piece(tag);
  std::ranges::transform(pieces, all.begin() + 3, piece);
  all[3] = piece({first.data() - kType, first.size() + kType});
  const std::shared_lock lock(mutex_);
  return tap_ >= 0 && write_packet(tap_, std::span(all).first(3 + pieces.size()));
}

}  // namespace ipoib::linux
