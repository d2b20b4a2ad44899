// Colours of the output, as those of ip(8).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ipoib::ibarp {

enum class ColorMode : std::uint8_t { automatic, always, never };

/// What a text is; ip(8) shows these in cyan, magenta, blue, yellow, green and red.
enum class Ink : std::uint8_t { interface, ipv4, ipv6, link_layer, good, bad };

/// Says when ink() adds colours from now on: always; never; or if standard output is a terminal
/// that is not dumb, and NO_COLOR is unset or empty (no-color.org).
void use_colors(ColorMode mode);
/// Whether ink() adds colours.
[[nodiscard]] bool has_colors();
/// The text with the escape sequences of its colour, or as it is.
[[nodiscard]] std::string ink(Ink what, std::string_view text);

/// Addresses and states have their colours by what they say.
[[nodiscard]] std::string ink_address(int family, std::string_view text);
/// "reachable", "up", "full" are good, "failed", "missing", "port_down" are bad.
[[nodiscard]] std::string ink_state(std::string_view state);

}  // namespace ipoib::ibarp
