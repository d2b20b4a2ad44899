#include "wire/sa_values.hpp"

#include <array>

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

}  // namespace

std::uint32_t rate_mbps(std::uint8_t code) { return code < kRates.size() ? kRates[code] : 0; }

}  // namespace ipoib::wire
