// What depends on the management class of a MAD (IBA 13.4.4, 13.5): header sizes, RMPP, OUIs.
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

/// Classes whose MADs name the vendor by an OUI.
[[nodiscard]] constexpr bool has_oui(std::uint8_t management_class) {
  return management_class >= kVendorRange2Start && management_class <= kVendorRange2End;
}
/// Classes whose MADs have an RMPP header.
[[nodiscard]] bool has_rmpp(std::uint8_t management_class);
/// Octets of all headers together; the data begins here.
[[nodiscard]] std::size_t header_size(std::uint8_t management_class);
/// The OUI of a MAD whose class has one.
[[nodiscard]] std::optional<std::uint32_t> oui_of(ConstBytes mad);
/// A response, or a TrapRepress, which answers a trap (IBA 13.4.5).
[[nodiscard]] bool is_response(const MadHeader& header);

}  // namespace softib::umad
