// Status of an SA response (IBA 15.2.2), with names and likely causes.
#pragma once

#include <cstdint>
#include <string_view>

namespace ipoib::wire {

/// The status field of the MAD header, in host order.
enum class SaStatus : std::uint16_t {
  ok = 0x0000,
  busy = 0x0001,      ///< a bit (IBA 13.4.7), as is the next
  redirect = 0x0002,  ///< another address serves the class, see ClassPortInfo
  unsupported_version = 0x0004,
  unsupported_method = 0x0008,
  unsupported_method_attribute = 0x000c,
  invalid_field = 0x001c,
  no_resources = 0x0100,
  request_invalid = 0x0200,
  no_records = 0x0300,
  too_many_records = 0x0400,
  invalid_gid = 0x0500,
  insufficient_components = 0x0600,
  request_denied = 0x0700,
};

/// `bit` is busy or redirect.
[[nodiscard]] constexpr bool has(SaStatus status, SaStatus bit) {
  return (static_cast<std::uint16_t>(status) & static_cast<std::uint16_t>(bit)) != 0;
}
/// "request invalid" for 0x0200; "unknown status" for any other value.
[[nodiscard]] std::string_view name(SaStatus status);
/// The likely cause if a join or a path request fails, as a phrase; may be empty.
[[nodiscard]] std::string_view likely_cause(SaStatus status);

}  // namespace ipoib::wire
