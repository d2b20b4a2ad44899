// Memory that processes share by passing a memfd. Its size is sealed, so that no process can shrink
// it while others have it mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace softib::transport {

/// Returns new zeroed memory of `bytes`, a multiple of the page size. `name` shows in
/// /proc/PID/maps.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> make_shared_memory(const char* name,
                                                                      std::size_t bytes);

/// A mapping of such memory, created by this or another process.
class SharedMapping {
 public:
  /// EINVAL if `fd` is something else or has another size.
  [[nodiscard]] static ipoib::Result<SharedMapping> map(int fd, std::size_t bytes);
  /// Maps `head` bytes once and the `ring` bytes after them twice in a row. A record that starts
  /// near the end of the ring and continues at its beginning is contiguous in this mapping.
  [[nodiscard]] static ipoib::Result<SharedMapping> map_ring(int fd, std::size_t head,
                                                             std::size_t ring);
  SharedMapping(SharedMapping&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), size_(other.size_) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~SharedMapping();

  [[nodiscard]] std::uint8_t* data() const { return memory_; }

 private:
  SharedMapping(void* memory, std::size_t size)
      : memory_(static_cast<std::uint8_t*>(memory)), size_(size) {}

  std::uint8_t* memory_;
  std::size_t size_;
};

}  // namespace softib::transport
