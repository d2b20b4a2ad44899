// Finds a partition in a port's P_Key table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/address.hpp"

namespace ipoib {

/// An entry of a port's P_Key table.
struct PKeyEntry {
  std::uint16_t index = 0;
  PKey pkey;
  friend bool operator==(const PKeyEntry&, const PKeyEntry&) = default;
};

/// Returns the entry of `pkey`'s partition: one with full membership if there is one, else a
/// limited one.
[[nodiscard]] std::optional<PKeyEntry> find_partition(const std::vector<PKey>& table, PKey pkey);

/// The partition of the table that the decimal digits of `pkey` name if they are read as
/// hexadecimal ones, as in 8001 for 0x8001; nullopt if there is none.
[[nodiscard]] std::optional<PKey> meant_in_hexadecimal(const std::vector<PKey>& table, PKey pkey);

inline constexpr std::string_view kPKeyRange =
    "0x0001 to 0x7fff, with or without the membership bit 0x8000; hexadecimal numbers need 0x";

/// A P_Key of kPKeyRange, decimal or hexadecimal with 0x; nullopt if the text is none.
[[nodiscard]] std::optional<PKey> parse_pkey(std::string_view text);

/// A remark about a decimal number of four digits, as which P_Keys are written in hexadecimal: what
/// it is, and what may be meant. Empty for other texts.
[[nodiscard]] std::string remark_on_pkey(std::string_view text);

}  // namespace ipoib
