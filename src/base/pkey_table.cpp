#include "ipoib/pkey_table.hpp"

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

}  // namespace ipoib
