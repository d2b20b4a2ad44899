// Random numbers that strangers cannot guess: keys, transaction ids, seeds.
#pragma once

#include <cstdint>

namespace ipoib {

/// 64 bits of the kernel's random number generator (getrandom(2)). Throws std::system_error.
[[nodiscard]] std::uint64_t random_bits();

}  // namespace ipoib
