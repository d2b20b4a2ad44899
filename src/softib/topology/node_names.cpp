#include "softib/topology/node_names.hpp"

#include <algorithm>

#include "ipoib/number.hpp"
#include "softib/core/name.hpp"
#include "softib/topology/check.hpp"

namespace softib::topology {

std::optional<Guid> guid_of_node_id(std::string_view id) {
  constexpr std::size_t kDigits = 16;
  constexpr std::string_view kKinds = "SHR?";
  if (id.size() != kDigits + 2 || id[1] != '-' || kKinds.find(id[0]) == std::string_view::npos) {
    return std::nullopt;
  }
  const auto guid = ipoib::parse_number<std::uint64_t>(id.substr(2), 16);
  if (!guid) return std::nullopt;
  return Guid(*guid);
}

std::string name_like(std::string_view text) {
  std::string name;
  bool gap = false;
  for (const char c : text) {
    const bool is_separator = c == '.' || c == '-';
    // One more character is valid in a name, but not as its first one.
    if (is_separator ? name.empty() : !is_valid_name({&c, 1})) {
      gap = true;
      continue;
    }
    if (gap && !name.empty() && !is_separator && name.back() != '-') name += '-';
    gap = false;
    name += c;
  }
  name.resize(std::min(name.size(), kMaxNodeName));
  return name;
}

std::string clean_description(std::string_view text) {
  std::string out(text.substr(0, kMaxDescription));
  for (char& c : out) {
    if (c == '"') c = '\'';
    if (c < ' ' || c > '~') c = ' ';
  }
  return out;
}

std::string NodeNames::take_like(const std::string& name) {
  if (take(name)) return name;
  unsigned& last = last_numbers_.try_emplace(name, 1).first->second;
  for (;;) {
    const std::string suffix = "-" + std::to_string(++last);
    std::string numbered = name.substr(0, kMaxNodeName - suffix.size()) + suffix;
    if (take(numbered)) return numbered;
  }
}

}  // namespace softib::topology
