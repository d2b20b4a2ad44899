// Where a port's P_Key table has a partition.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/address.hpp"

namespace ipoib {

/// A place in a port's P_Key table.
struct PKeyEntry {
  std::uint16_t index = 0;
  PKey pkey;
  friend bool operator==(const PKeyEntry&, const PKeyEntry&) = default;
};

/// The place of `pkey`'s partition: a full member's entry if there is one, else a limited one's.
[[nodiscard]] std::optional<PKeyEntry> find_partition(const std::vector<PKey>& table, PKey pkey);

}  // namespace ipoib
