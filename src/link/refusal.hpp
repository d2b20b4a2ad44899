// How refusals of the subnet administrator are told to people.
#pragma once

#include <bit>
#include <string>

#include "link/events.hpp"

namespace ipoib::link {

/// The status by name, and its likely cause; or why there is no status.
[[nodiscard]] std::string describe(const Refusal& refusal);

/// Whether the n-th refusal in a row is worth a line of the log: the first, the second, the fourth
/// and so on are.
[[nodiscard]] constexpr bool should_log(unsigned refusals) { return std::has_single_bit(refusals); }

}  // namespace ipoib::link
