#include "wire/sa_values.hpp"

namespace ipoib::wire {

std::uint32_t rate_mbps(std::uint8_t code) {
  switch (code) {
    case 2:  // 1x SDR
      return 2'500;
    case 3:  // 4x SDR
      return 10'000;
    case 4:  // 12x SDR
      return 30'000;
    case 5:  // 1x DDR
      return 5'000;
    case 6:  // 8x SDR, 4x DDR
      return 20'000;
    case 7:  // 4x QDR
      return 40'000;
    case 8:  // 12x DDR
      return 60'000;
    case 9:  // 8x QDR
      return 80'000;
    case 10:  // 12x QDR
      return 120'000;
    case 11:  // 1x FDR
      return 14'062;
    case 12:  // 4x FDR
      return 56'250;
    case 13:  // 8x FDR
      return 112'500;
    case 14:  // 12x FDR
      return 168'750;
    case 15:  // 1x EDR
      return 25'781;
    case 16:  // 4x EDR
      return 103'125;
    case 17:  // 8x EDR
      return 206'250;
    case 18:  // 12x EDR
      return 309'375;
    case 19:  // 2x FDR
      return 28'125;
    case 20:  // 1x HDR
      return 53'125;
    case 21:  // 8x HDR, 4x NDR
      return 425'000;
    case 22:  // 12x HDR
      return 637'500;
    case 23:  // 8x NDR
      return 850'000;
    case 24:  // 12x NDR
      return 1'275'000;
    default:
      return 0;
  }
}

}  // namespace ipoib::wire
