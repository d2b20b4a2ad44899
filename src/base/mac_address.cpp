#include "ipoib/mac_address.hpp"

#include <charconv>

namespace ipoib {

std::string MacAddress::to_string() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : bytes_) {
    if (!out.empty()) out += ':';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0x0f];
  }
  return out;
}

std::optional<MacAddress> MacAddress::parse(std::string_view text) {
  Bytes bytes{};
  if (text.size() != 3 * kSize - 1) return std::nullopt;
  for (std::size_t i = 0; i < kSize; ++i) {
    const char* const at = text.data() + 3 * i;
    if (i + 1 < kSize && at[2] != ':') return std::nullopt;
    const auto [end, error] = std::from_chars(at, at + 2, bytes[i], 16);
    if (error != std::errc() || end != at + 2) return std::nullopt;
  }
  return MacAddress(bytes);
}

}  // namespace ipoib
