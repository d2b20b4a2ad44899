// Reads commands from a file: one on a line, in words. A word that begins with # begins a comment.
#pragma once

#include <fstream>
#include <iosfwd>
#include <string>
#include <vector>

namespace ipoib::ibarp {

class Batch {
 public:
  static constexpr std::size_t kMaxLine = 4096;  ///< bytes, without the newline

  /// "-" is standard input. Throws Failure if the file cannot be opened.
  explicit Batch(const std::string& name);

  /// Reads the words of the next line that has any. Returns false at the end. Throws Failure if a
  /// line is too long, or cannot be read.
  [[nodiscard]] bool next(std::vector<std::string>& words);
  /// Where the line is that was read last, "FILE:LINE: "; the first line has number 1.
  [[nodiscard]] std::string location() const { return name_ + ":" + std::to_string(line_) + ": "; }

 private:
  [[nodiscard]] bool read_line(std::string& text);

  std::string name_;
  std::ifstream file_;
  std::istream& in_;
  std::size_t line_ = 0;
};

}  // namespace ipoib::ibarp
