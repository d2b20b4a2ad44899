// Converts libnl's errors.
#pragma once

#include <netlink/netlink.h>

#include <string>

#include "ipoib/result.hpp"

namespace ipoib::linux {

/// `code` is a negative libnl error, which is no errno value.
[[nodiscard]] inline Error netlink_error(const std::string& what, int code) {
  return Error{0, what + ": " + nl_geterror(code)};
}

}  // namespace ipoib::linux
