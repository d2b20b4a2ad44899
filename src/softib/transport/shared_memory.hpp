// Memory that processes share by handing over its descriptor. Its size is sealed, so that nobody
// can take pages away from under who has mapped it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace softib::transport {

/// New memory of `octets`, a multiple of the page size, all zeroes. `name` shows in /proc/PID/maps.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> make_shared_memory(const char* name,
                                                                      std::size_t octets);

/// A mapping of such memory, made here or by another process.
class SharedMapping {
 public:
  /// EINVAL: `fd` is something else, or of another size.
  [[nodiscard]] static ipoib::Result<SharedMapping> map(int fd, std::size_t octets);
  /// Maps what follows the first `head` octets twice, one behind the other: there what begins near
  /// the end of it goes on, in memory, at its beginning.
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
