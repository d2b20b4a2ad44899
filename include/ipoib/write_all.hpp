// Writes to a file or a stream of which nothing may be lost unnoticed.
#pragma once

#include <cstddef>
#include <span>

namespace ipoib {

struct Written {
  std::size_t bytes = 0;
  int code = 0;  ///< why it is not everything, an errno value; 0 if it is
};

/// Writes all bytes unless it fails. A stream without a reader (EPIPE), and the limit of the size
/// of files (EFBIG), are failures too, instead of ending the program by a signal.
[[nodiscard]] Written write_all(int file, std::span<const std::byte> bytes);

/// ftruncate(2) that fails at the limit of the size of files (EFBIG), instead of ending the program
/// by a signal. Returns an errno value, or 0.
[[nodiscard]] int set_file_size(int file, std::size_t bytes);

}  // namespace ipoib
