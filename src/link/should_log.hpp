// Limits log lines about repeated failures.
#pragma once

#include <bit>

namespace ipoib::link {

/// Whether to log the n-th failure in a row: the first, second, fourth, eighth and so on.
[[nodiscard]] constexpr bool should_log(unsigned failures) { return std::has_single_bit(failures); }

}  // namespace ipoib::link
