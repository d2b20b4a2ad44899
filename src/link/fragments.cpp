#include "link/fragments.hpp"

#include <algorithm>
#include <cstdint>

#include "offload/segmenter.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4_fragments.hpp"

namespace ipoib::link {
namespace {

/// Returns false if the pool is empty.
bool append(ConstBytes packet, std::size_t mtu, FramePool& pool, std::vector<Frame>& to) {
  for (wire::Ipv4Fragmenter fragmenter(packet, mtu); !fragmenter.done();) {
    Frame frame = pool.take();
    if (!frame) return false;
    frame.window(wire::kEncapsulationSize, mtu);
    frame.window(wire::kEncapsulationSize, fragmenter.next(frame.bytes()));
    to.push_back(std::move(frame));
  }
  return true;
}

bool append_segments(const Frame& large, std::size_t mtu, FramePool& pool, std::vector<Frame>& to) {
  auto segmenter = offload::make_segmenter(large, 0);
  std::vector<std::uint8_t> segment;
  while (!segmenter.done()) {
    segment.resize(segmenter.header_size());
    const ConstBytes payload = segmenter.next(segment.data());
    segment.insert(segment.end(), payload.begin(), payload.end());
    if (!append(segment, mtu, pool, to)) return false;
  }
  return true;
}

}  // namespace

std::vector<Frame> fragments_of(const Frame& packet, std::size_t mtu, FramePool& pool,
                                Counters& counters) {
  std::vector<Frame> fragments;
  const bool complete = packet.is_large() ? append_segments(packet, mtu, pool, fragments)
                                          : append(packet.bytes(), mtu, pool, fragments);
  if (!complete) {
    fragments.clear();
    counters.add(Counter::drop_no_frame);
  } else {
    counters.add(Counter::packets_fragmented);
  }
  return fragments;
}

}  // namespace ipoib::link
