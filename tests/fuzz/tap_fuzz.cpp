// Frames that are read from a TAP, with any virtio header, with and without the tag of a VLAN: a
// tag is removed and nothing else, and what is accepted is a packet that can be segmented.
//
// An input is the virtio header (10 bytes, in this machine's order), and the frame.
#include <algorithm>
#include <cstring>

#include "cost.hpp"
#include "linux/virtio_header.hpp"
#include "require.hpp"

using namespace ipoib;
using linux::VirtioHeader;
using wire::EthernetHeader;
using wire::VlanTag;

namespace {

constexpr std::uint64_t kMaxCost = 200'000;
constexpr std::size_t kBegin = 2;
constexpr std::size_t kSlot = 1024;

Frame frame_of(FramePool& pool, ConstBytes bytes) {
  Frame frame = pool.take();
  frame.window(kBegin, bytes.size());
  std::ranges::copy(bytes, frame.bytes().begin());
  return frame;
}

/// The tag put in again makes the same frame.
void check_removed(const VlanTag& tag, ConstBytes before, ConstBytes after) {
  require(after.size() + VlanTag::kSize == before.size());
  require(std::ranges::equal(before.first(VlanTag::kOffset), after.first(VlanTag::kOffset)));
  std::array<std::uint8_t, VlanTag::kSize> written;
  tag.emit(written.data());
  require(std::ranges::equal(before.subspan(VlanTag::kOffset, VlanTag::kSize), written));
  require(std::ranges::equal(before.subspan(VlanTag::kOffset + VlanTag::kSize),
                             after.subspan(VlanTag::kOffset)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < sizeof(VirtioHeader) || size > kSlot - kBegin) return 0;
  const CostLimit limit(kMaxCost);
  static FramePool pool(1, kSlot);
  VirtioHeader header;
  std::memcpy(&header, data, sizeof header);
  const ConstBytes bytes(data + sizeof header, size - sizeof header);
  Frame frame = frame_of(pool, bytes);
  const VirtioHeader before = header;
  const auto parsed = VlanTag::parse(bytes);
  const auto tag = remove_tag(header, frame);
  if (tag) {
    require(tag == parsed);
    check_removed(*tag, bytes, std::as_const(frame).bytes());
    const bool is_partial = (header.flags & linux::virtio::kNeedsChecksum) != 0;
    if (is_partial) {
      require(header.csum_start + VlanTag::kSize == before.csum_start);
      require(moved_by(VlanTag::kSize, header).csum_start == before.csum_start);
    }
  } else {
    require(std::ranges::equal(std::as_const(frame).bytes(), bytes));
  }
  if (!apply_header_to_ethernet(header, frame)) return 0;
  require(frame.headroom() >= kBegin + EthernetHeader::kSize);
  require(!frame.is_large() || frame.segmentation().payload <= frame.size());
  return 0;
}
