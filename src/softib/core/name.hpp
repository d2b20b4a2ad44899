// The rule for names of subnets and HCAs.
#pragma once

#include <string_view>

#include "ipoib/result.hpp"

namespace softib {

/// Names of subnets and HCAs: 1 to kMaxNodeName of A-Z a-z 0-9 . _ -, not beginning with . or -.
[[nodiscard]] bool is_valid_name(std::string_view name);

/// The error EINVAL with a message that states the rule. `of` is "HCA" or "subnet".
[[nodiscard]] ipoib::Error invalid_name(std::string_view of, std::string_view name);

}  // namespace softib
