#include "ipoib/pkey_table.hpp"

#include <array>
#include <cstdio>

#include "ipoib/number.hpp"

namespace ipoib {

std::optional<PKeyEntry> find_partition(const std::vector<PKey>& table, PKey pkey) {
  std::optional<PKeyEntry> found;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto entry = table[i];
    if (!entry.is_valid() || !entry.same_partition(pkey)) continue;
    if (entry.is_full()) return PKeyEntry{static_cast<std::uint16_t>(i), entry};
    if (!found) found = PKeyEntry{static_cast<std::uint16_t>(i), entry};
  }
  return found;
}

std::optional<PKey> meant_in_hexadecimal(const std::vector<PKey>& table, PKey pkey) {
  // The membership bit may have been added since.
  for (const auto number : {pkey.value(), pkey.base()}) {
    const auto read = parse_number<std::uint16_t>(std::to_string(number), 16);
    if (read && PKey(*read).is_valid() && find_partition(table, PKey(*read))) {
      return PKey(*read).as_full();
    }
  }
  return std::nullopt;
}

std::optional<PKey> parse_pkey(std::string_view text) {
  const bool is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const auto value = is_hexadecimal ? parse_number<std::uint16_t>(text.substr(2), 16)
                                    : parse_number<std::uint16_t>(text);
  if (!value || !PKey(*value).is_valid()) return std::nullopt;
  return PKey(*value);
}

std::string remark_on_pkey(std::string_view text) {
  constexpr std::size_t kDigits = 4;
  const auto value = parse_number<std::uint16_t>(text);
  if (!value || text.size() != kDigits) return {};
  std::array<char, 64> is{};
  std::snprintf(is.data(), is.size(), "P_Key %u is 0x%04x; 0x%04u needs 0x", unsigned{*value},
                unsigned{*value}, unsigned{*value});
  return is.data();
}

}  // namespace ipoib
