// The memory of a ring (ring.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "softib/transport/shared_memory.hpp"

namespace softib::transport {

/// Bound of the packets that a slow reader has pending; small enough to stay in the CPU cache.
inline constexpr std::size_t kRingBytes = std::size_t{1} << 19;

/// What one side writes for each packet has a cache line of its own.
struct RingHeader {
  alignas(64) std::atomic<std::uint64_t> written;
  std::atomic<std::uint32_t> writer_sleeps;
  std::atomic<std::uint32_t> engine_requested;
  alignas(64) std::atomic<std::uint64_t> taken;
  alignas(64) std::atomic<std::uint32_t> reader_state;
};

enum class ReaderState : std::uint32_t {
  open,
  closing,  ///< it takes records that are published now, but perhaps none that are published later
  closed,   ///< `taken` is final
};

[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> make_ring_memory();

class RingMemory {
 public:
  /// Maps the memory of a ring. Fails with EINVAL if `memory` is something else.
  [[nodiscard]] static ipoib::Result<RingMemory> map(int memory);
  [[nodiscard]] RingHeader& header() const {
    return *reinterpret_cast<RingHeader*>(mapping_.data());
  }
  /// The address of the record that starts at `position` (a count of bytes ever written).
  [[nodiscard]] std::uint8_t* at(std::uint64_t position) const {
    return mapping_.data() + kHeaderBytes + (position & (kRingBytes - 1));
  }

  static constexpr std::size_t kHeaderBytes = 4096;

 private:
  explicit RingMemory(SharedMapping mapping) : mapping_(std::move(mapping)) {}
  SharedMapping mapping_;
};

}  // namespace softib::transport
