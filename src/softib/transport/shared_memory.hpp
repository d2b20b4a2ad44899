// Memory that processes share by passing a memfd. Its size is sealed, so that no process can shrink
// it while others have it mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

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
  /// Maps the memory. Fails with EINVAL if `fd` is something else or has another size.
  [[nodiscard]] static ipoib::Result<SharedMapping> map(int fd, std::size_t bytes);
  [[nodiscard]] static ipoib::Result<SharedMapping> map_readonly(int fd, std::size_t bytes);
  /// Maps `head` bytes once and the `ring` bytes after them twice in a row. A record that starts
  /// near the end of the ring and continues at its beginning is contiguous in this mapping.
  [[nodiscard]] static ipoib::Result<SharedMapping> map_ring(int fd, std::size_t head,
                                                             std::size_t ring);

  [[nodiscard]] std::uint8_t* data() const { return memory_.get(); }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::uint8_t* memory) const;
  };
  static ipoib::Result<SharedMapping> map(int fd, std::size_t bytes, int protection);
  SharedMapping(void* memory, std::size_t size)
      : memory_(static_cast<std::uint8_t*>(memory), Unmap{size}) {}

  std::unique_ptr<std::uint8_t, Unmap> memory_;
};

}  // namespace softib::transport
