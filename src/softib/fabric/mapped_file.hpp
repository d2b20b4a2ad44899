// A shared mapping of a file that other processes may truncate.
//
// Whoever may write to a file may truncate it, and only a memfd can be sealed against that, which
// has no name by which a process could attach while no other one runs. Access to a page beyond the
// end of the file raises SIGBUS, in whatever thread. A handler then replaces the mapping by zeroes,
// for good: for this process all that was in the file is gone. The handler passes other faults on
// to the one that was installed before it. A program that later installs a handler of its own is
// not protected, nor is a thread that blocks SIGBUS.
#pragma once

#include <cstddef>
#include <memory>

#include "ipoib/result.hpp"

namespace softib::fabric {

/// The most mappings that a process has at a time.
inline constexpr std::size_t kMaxMappedFiles = 1024;

/// Maps the first `size` bytes of a file for reading and writing; `size` is a multiple of the page
/// size.
[[nodiscard]] ipoib::Result<std::shared_ptr<void>> map_file(int file, std::size_t size);
/// Whether a mapping has been replaced by zeroes.
[[nodiscard]] bool is_lost(const void* mapping);

}  // namespace softib::fabric
