// A verb's refusal as an Error.
#pragma once

#include <cstring>
#include <string>

#include "ipoib/result.hpp"

namespace ipoib::verbs {

/// `error` is an errno value; `remedy` says what to do, and may be empty.
[[nodiscard]] inline Error refused(const std::string& what, int error,
                                   const std::string& remedy = {}) {
  return Error{error, what + ": " + std::strerror(error) + (remedy.empty() ? "" : "; " + remedy)};
}

}  // namespace ipoib::verbs
