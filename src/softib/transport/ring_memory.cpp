#include "softib/transport/ring_memory.hpp"

namespace softib::transport {

using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr std::size_t kRingMemoryBytes = RingMemory::kHeaderBytes + kRingBytes;

static_assert(sizeof(RingHeader) <= RingMemory::kHeaderBytes);
static_assert((kRingBytes & (kRingBytes - 1)) == 0);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace

Result<FileDescriptor> make_ring_memory() {
  return make_shared_memory("softib-ring", kRingMemoryBytes);
}

Result<RingMemory> RingMemory::map(int memory) {
  auto mapping = SharedMapping::map_ring(memory, RingMemory::kHeaderBytes, kRingBytes);
  if (!mapping) return mapping.error();
  return RingMemory(std::move(*mapping));
}

}  // namespace softib::transport
