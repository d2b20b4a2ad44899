#include "softib/topology/net_line.hpp"

#include <algorithm>
#include <string>

#include "ipoib/number.hpp"

namespace softib::topology {

namespace {

constexpr std::size_t kGuidDigits = 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool is_hexadecimal(std::string_view text) {
  return text.starts_with("0x") || text.starts_with("0X");
}

/// 0123:4567:89ab:cdef without the colons; nullopt if it is not of this form.
std::optional<std::string> without_colons(std::string_view text) {
  constexpr std::size_t kGroup = 5;
  if (text.size() != kGuidDigits + 3) return std::nullopt;
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_colon = text[i] == ':';
    if (is_colon != (i % kGroup == kGroup - 1)) return std::nullopt;
    if (!is_colon) digits += text[i];
  }
  return digits;
}

}  // namespace

std::optional<std::uint64_t> parse_c_number(std::string_view text) {
  if (is_hexadecimal(text)) return ipoib::parse_number<std::uint64_t>(text.substr(2), 16);
  return ipoib::parse_number<std::uint64_t>(text);
}

std::optional<Guid> parse_guid(std::string_view text) {
  const auto joined = without_colons(text);
  if (joined) text = *joined;
  const bool is_number =
      is_hexadecimal(text) || (std::ranges::all_of(text, is_digit) && text.size() != kGuidDigits);
  const auto value =
      is_number ? parse_c_number(text) : ipoib::parse_number<std::uint64_t>(text, 16);
  if (!value) return std::nullopt;
  return Guid(*value);
}

void NetLine::skip_blanks() {
  while (!is_at_end() && is_blank(text_[at_])) ++at_;
}

bool NetLine::eat(char c) {
  if (is_at_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

std::string_view NetLine::letters() {
  const std::size_t begin = at_;
  while (!is_at_end() && is_letter(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view NetLine::word() {
  const std::size_t begin = at_;
  while (!is_at_end() && !is_blank(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::optional<unsigned> NetLine::digits() {
  const std::size_t begin = at_;
  while (!is_at_end() && is_digit(text_[at_])) ++at_;
  return ipoib::parse_number<unsigned>(text_.substr(begin, at_ - begin));
}

std::optional<std::string_view> NetLine::quoted() {
  if (next() != '"') return std::nullopt;
  const auto end = text_.find('"', at_ + 1);
  if (end == std::string_view::npos) return std::nullopt;
  const auto inside = text_.substr(at_ + 1, end - at_ - 1);
  at_ = end + 1;
  return inside;
}

std::optional<std::string_view> NetLine::until(char close) {
  const auto end = text_.find(close, at_);
  if (end == std::string_view::npos) return std::nullopt;
  const auto inside = text_.substr(at_, end - at_);
  at_ = end + 1;
  return inside;
}

}  // namespace softib::topology
