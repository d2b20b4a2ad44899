// The parts of a line of a net file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "softib/core/fabric_types.hpp"

namespace softib::topology {

/// A GUID: 0x and hexadecimal digits, 16 hexadecimal digits with or without colons between each
/// four, or hexadecimal digits with a letter among them. Digits alone are a decimal number, as with
/// ibsim.
[[nodiscard]] std::optional<Guid> parse_guid(std::string_view text);

/// A number in decimal, or in hexadecimal after 0x.
[[nodiscard]] std::optional<std::uint64_t> parse_c_number(std::string_view text);

/// Reads a line from its beginning to its end. Refers to the text.
class NetLine {
 public:
  explicit NetLine(std::string_view text) : text_(text) {}

  /// Of the next character, from 1.
  [[nodiscard]] std::size_t column() const { return at_ + 1; }
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  [[nodiscard]] bool is_at_end() const { return at_ == text_.size(); }
  [[nodiscard]] char next() const { return is_at_end() ? '\0' : text_[at_]; }

  void skip(std::size_t bytes) { at_ = bytes < rest().size() ? at_ + bytes : text_.size(); }
  void skip_blanks();
  /// Skips the character if it is the next one.
  bool eat(char c);
  /// Letters of ASCII; empty if there is none.
  std::string_view letters();
  /// All up to a blank, or the end.
  std::string_view word();
  /// Digits of ASCII as a number; nullopt if there is none, or it is too large.
  std::optional<unsigned> digits();
  /// All between double quotes, which are next; nullopt if they are not there.
  std::optional<std::string_view> quoted();
  /// All up to `close`, which is skipped; nullopt if it is missing.
  std::optional<std::string_view> until(char close);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace softib::topology
