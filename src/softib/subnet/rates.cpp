#include "softib/subnet/rates.hpp"

namespace softib::subnet {

int compare_rates(std::uint8_t left, std::uint8_t right) {
  const std::uint32_t a = ipoib::wire::rate_mbps(left);
  const std::uint32_t b = ipoib::wire::rate_mbps(right);
  return a < b ? -1 : a > b ? 1 : 0;
}

std::uint8_t slower_rate(std::uint8_t code) {
  std::uint8_t best = 0;
  for (std::uint8_t other = 1; other <= kMaxRateCode; ++other) {
    if (!is_rate(other) || compare_rates(other, code) >= 0) continue;
    if (best == 0 || compare_rates(other, best) > 0) best = other;
  }
  return best;
}

bool mtu_satisfies(ipoib::wire::Selector selector, std::uint8_t wanted, std::uint8_t have) {
  return ipoib::wire::satisfies(selector, have - wanted);
}

bool rate_satisfies(ipoib::wire::Selector selector, std::uint8_t wanted, std::uint8_t have) {
  return ipoib::wire::satisfies(selector, compare_rates(have, wanted));
}

}  // namespace softib::subnet
