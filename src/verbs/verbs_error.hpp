// The Error for a failed verb.
#pragma once

#include <cstring>
#include <string>

#include "ipoib/result.hpp"

namespace ipoib::verbs {

/// `error` is an errno value; `hint` tells the user what to do, and may be empty.
[[nodiscard]] inline Error verbs_error(const std::string& what, int error,
                                       const std::string& hint = {}) {
  return Error{error, what + ": " + std::strerror(error) + (hint.empty() ? "" : "; " + hint)};
}

}  // namespace ipoib::verbs
