#include "text.hpp"

#include <array>
#include <cstdio>

namespace ipoib::ibarp {

namespace {

std::string tenths(std::uint64_t value) {
  std::string out = std::to_string(value / 10);
  if (value % 10 != 0) out += "." + std::to_string(value % 10);
  return out;
}

}  // namespace

std::string lid_text(std::uint16_t lid) { return lid != 0 ? hexadecimal(lid, 4) : "-"; }

std::string hexadecimal(std::uint64_t value, int digits) {
  std::array<char, 24> text{};
  const int length = std::snprintf(text.data(), text.size(), "0x%0*llx", digits,
                                   static_cast<unsigned long long>(value));
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string mac_text(std::span<const std::uint8_t, 6> mac) {
  std::array<char, 18> text{};
  const int length = std::snprintf(text.data(), text.size(), "%02x:%02x:%02x:%02x:%02x:%02x",
                                   mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string age(std::uint64_t milliseconds) {
  constexpr std::uint64_t kMinute = 60;
  constexpr std::uint64_t kHour = 60 * kMinute;
  constexpr std::uint64_t kDay = 24 * kHour;
  const std::uint64_t seconds = milliseconds / 1000;
  if (seconds < 10) return tenths(milliseconds / 100) + "s";
  if (seconds < 2 * kMinute) return std::to_string(seconds) + "s";
  if (seconds < 2 * kHour) return std::to_string(seconds / kMinute) + "m";
  if (seconds < 2 * kDay) return std::to_string(seconds / kHour) + "h";
  return std::to_string(seconds / kDay) + "d";
}

std::string rate(std::uint32_t mbps) { return mbps == 0 ? "-" : tenths(mbps / 100) + " Gb/s"; }

}  // namespace ipoib::ibarp
