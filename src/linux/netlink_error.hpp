// libnl's error codes as ours.
#pragma once

#include <netlink/netlink.h>

#include <string>

#include "ipoib/result.hpp"

namespace ipoib::host {

/// `code` as libnl returns it: negative, and not an errno value.
[[nodiscard]] inline Error netlink_error(const std::string& what, int code) {
  return Error{0, what + ": " + nl_geterror(code)};
}

}  // namespace ipoib::host
