// The little JSON (RFC 8259) that the answers of the control socket need: the members of one object
// that are strings, numbers or literals. Objects and arrays in it are skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softib::control {

class FlatJson {
 public:
  /// `text` must outlive this. Text that is no object has no members.
  explicit FlatJson(std::string_view text) : text_(text) {}

  [[nodiscard]] std::optional<std::string> string(std::string_view key) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const;
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;

 private:
  /// The octets of a member's value.
  [[nodiscard]] std::string_view value(std::string_view key) const;
  std::string_view text_;
};

}  // namespace softib::control
