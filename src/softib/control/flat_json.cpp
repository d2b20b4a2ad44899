#include "softib/control/flat_json.hpp"

#include <charconv>

namespace softib::control {

namespace {

constexpr std::string_view kSpace = " \t\r\n";

void skip_space(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
}

bool take(std::string_view& text, char c) {
  skip_space(text);
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

/// Octets of the string that the text begins with, with both quotes; 0: there is none.
std::size_t string_size(std::string_view text) {
  if (text.empty() || text.front() != '"') return 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return 0;
}

/// Octets of a value: up to the comma or bracket behind it.
std::size_t value_size(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t size = string_size(text.substr(i));
      if (size == 0) return 0;
      i += size - 1;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == '}')) {
      return i;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return 0;
}

std::string_view take_string(std::string_view& text) {
  skip_space(text);
  const std::size_t size = string_size(text);
  const auto found = text.substr(0, size);
  text.remove_prefix(size);
  return found;
}

/// Escapes of one character; others (\uXXXX) are left as they are, for a person to read.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == '"' || c == '\\' || c == '/') {
      out += c;
    } else if (c == 'n' || c == 't' || c == 'r') {
      out += ' ';
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string_view FlatJson::value(std::string_view key) const {
  std::string_view rest = text_;
  if (!take(rest, '{')) return {};
  do {
    const auto name = take_string(rest);
    if (name.size() < 2 || !take(rest, ':')) return {};
    skip_space(rest);
    const auto found = rest.substr(0, value_size(rest));
    if (found.empty()) return {};
    if (name.substr(1, name.size() - 2) == key) {
      return found.substr(0, found.find_last_not_of(kSpace) + 1);
    }
    rest.remove_prefix(found.size());
  } while (take(rest, ','));
  return {};
}

std::optional<std::string> FlatJson::string(std::string_view key) const {
  const auto text = value(key);
  if (text.size() < 2 || string_size(text) != text.size()) return std::nullopt;
  return unescape(text.substr(1, text.size() - 2));
}

std::optional<std::int64_t> FlatJson::integer(std::string_view key) const {
  const auto text = value(key);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<bool> FlatJson::boolean(std::string_view key) const {
  const auto text = value(key);
  if (text != "true" && text != "false") return std::nullopt;
  return text == "true";
}

}  // namespace softib::control
