#include "ipoib/pkey_table.hpp"

#include <string>

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

}  // namespace ipoib
