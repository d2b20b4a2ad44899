// A tar archive in memory.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

namespace ipoib::ibarp {

/// Writes the ustar format (POSIX.1-1988): a header of 512 bytes for each file, its contents, and
/// zeros up to the next multiple of 512.
class Archive {
 public:
  /// `when` is the time of modification of all files.
  explicit Archive(std::time_t when) : when_(when) {}

  /// Adds a file of mode 0600. Throws std::length_error if its name has more than the 100 bytes of
  /// the header.
  void add(std::string_view name, std::string_view contents);
  /// The archive. Two blocks of zeros end it.
  [[nodiscard]] std::string finish() &&;

 private:
  std::time_t when_;
  std::string bytes_;
};

}  // namespace ipoib::ibarp
