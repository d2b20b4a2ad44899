// Records that a command appends to a file, a stream, or a ring of files of bounded size.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace ipoib::program {

/// Owns the file that is being written, and what was not written to it yet.
class OutputRing {
 public:
  static constexpr std::uint32_t kMaxFiles = 10'000;
  struct Limits {
    std::uint64_t file_size = 0;  ///< bytes; 0: none
    /// With more than one, the files are PATH and a number, and the oldest is replaced.
    std::uint32_t files = 1;
  };

  /// Creates the first file, or empties it, and begins it with `header`, as each file. "-" is the
  /// standard output, which must not be a terminal. A file is for its owner only.
  [[nodiscard]] static Result<OutputRing> open(const std::string& path,
                                               std::span<const std::uint8_t> header,
                                               const Limits& limits);
  /// Adds a record, which is not split between files. Returns false if it does not fit into the
  /// only file.
  [[nodiscard]] Result<bool> add(std::span<const std::uint8_t> record);
  /// Writes what was added. A stream whose reader has gone is EPIPE.
  [[nodiscard]] Result<void> flush();
  [[nodiscard]] bool is_stream() const { return path_ == "-"; }

 private:
  OutputRing(std::string path, std::span<const std::uint8_t> header, const Limits& limits)
      : path_(std::move(path)), header_(header.begin(), header.end()), limits_(limits) {}
  [[nodiscard]] std::string name() const;
  [[nodiscard]] Result<void> begin_file();

  std::string path_;
  std::vector<std::uint8_t> header_;
  Limits limits_;
  FileDescriptor file_;
  std::uint32_t number_ = 0;     ///< of the file
  std::uint64_t file_size_ = 0;  ///< with what waits
  std::vector<std::uint8_t> waiting_;
};

}  // namespace ipoib::program
