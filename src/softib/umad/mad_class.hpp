// Properties of management classes (IBA 13.4.4, 13.5): header size, RMPP, OUI.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "wire/mad.hpp"

namespace softib::umad {

using ipoib::ConstBytes;
using ipoib::wire::MadHeader;

inline constexpr std::uint8_t kVendorRange2Start = 0x30;
inline constexpr std::uint8_t kVendorRange2End = 0x4f;

/// Whether MADs of the class have a vendor OUI.
[[nodiscard]] constexpr bool has_oui(std::uint8_t management_class) {
  return management_class >= kVendorRange2Start && management_class <= kVendorRange2End;
}
/// Whether MADs of the class have an RMPP header.
[[nodiscard]] bool has_rmpp(std::uint8_t management_class);
/// Size of all headers in bytes, which is the offset of the data.
[[nodiscard]] std::size_t header_size(std::uint8_t management_class);
/// The OUI of a MAD of a class that has one; nullopt if the MAD is too short.
[[nodiscard]] std::optional<std::uint32_t> oui_of(ConstBytes mad);
/// Whether a MAD is a response, or a TrapRepress, which responds to a trap (IBA 13.4.5).
[[nodiscard]] bool is_response(const MadHeader& header);

}  // namespace softib::umad
