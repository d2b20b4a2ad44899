// Formats numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ipoib::ibarp {

/// "0x0401", with at least `digits` digits.
[[nodiscard]] std::string hexadecimal(std::uint64_t value, int digits);
/// "-" for 0: there is none before a group is joined, and on RoCE.
[[nodiscard]] std::string lid_text(std::uint16_t lid);
/// "02:00:00:00:00:01".
[[nodiscard]] std::string mac_text(std::span<const std::uint8_t, 6> mac);
/// "0.2s", "35s", "12m", "5h", "3d".
[[nodiscard]] std::string age(std::uint64_t milliseconds);
/// "40 Gb/s", "2.5 Gb/s"; "-" for 0.
[[nodiscard]] std::string rate(std::uint32_t mbps);

}  // namespace ipoib::ibarp
