#include "wire/sa_values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>

namespace ipoib::wire {

namespace {

/// Rates in Mb/s, by code.
constexpr std::array<std::uint32_t, 25> kRates = {
    0,          // no rate
    0,          // no rate
    2'500,      // 2: 1x SDR
    10'000,     // 3: 4x SDR
    30'000,     // 4: 12x SDR
    5'000,      // 5: 1x DDR
    20'000,     // 6: 8x SDR, 4x DDR
    40'000,     // 7: 4x QDR
    60'000,     // 8: 12x DDR
    80'000,     // 9: 8x QDR
    120'000,    // 10: 12x QDR
    14'062,     // 11: 1x FDR
    56'250,     // 12: 4x FDR
    112'500,    // 13: 8x FDR
    168'750,    // 14: 12x FDR
    25'781,     // 15: 1x EDR
    103'125,    // 16: 4x EDR
    206'250,    // 17: 8x EDR
    309'375,    // 18: 12x EDR
    28'125,     // 19: 2x FDR
    53'125,     // 20: 1x HDR
    425'000,    // 21: 8x HDR, 4x NDR
    637'500,    // 22: 12x HDR
    850'000,    // 23: 8x NDR
    1'275'000,  // 24: 12x NDR
};
constexpr auto kRateCodes = static_cast<std::uint8_t>(kRates.size());

/// Gb/s by which rates are named that are up to a sixteenth higher.
constexpr std::array kNominalRates{25, 50, 100, 200, 300, 400, 600, 800, 1200};

}  // namespace

std::uint32_t rate_mbps(std::uint8_t code) { return code < kRates.size() ? kRates[code] : 0; }

std::uint8_t rate_code(std::string_view gbits) {
  constexpr double kMostGbits = 10'000;
  constexpr double kTolerance = 1.0 / 16;
  constexpr double kRounding = 1;  // Gb/s
  double wanted = 0;
  const char* const end = gbits.data() + gbits.size();
  const auto [rest, error] = std::from_chars(gbits.data(), end, wanted, std::chars_format::fixed);
  if (error != std::errc() || rest != end || !(wanted > 0) || !(wanted <= kMostGbits)) return 0;
  const bool is_nominal = std::ranges::find(kNominalRates, wanted) != kNominalRates.end();
  const double most = wanted * kTolerance;
  double best_distance = 1000 * (is_nominal ? most : std::min(most, kRounding));
  wanted *= 1000;
  std::uint8_t best = 0;
  for (std::uint8_t code = 0; code < kRateCodes; ++code) {
    const double distance = std::abs(kRates[code] - wanted);
    if (kRates[code] == 0 || distance > best_distance) continue;
    best = code;
    best_distance = distance;
  }
  return best;
}

std::string known_rates() {
  auto rates = kRates;
  std::ranges::sort(rates);
  std::string out;
  for (const auto mbps : rates) {
    if (mbps == 0) continue;
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), mbps < 5000 ? "%.1f" : "%.0f", mbps / 1000.0);
    out += (out.empty() ? "" : ", ") + std::string(text.data());
  }
  return out + " (or nominal, as 100 or 400)";
}

}  // namespace ipoib::wire
