// Converts libnl's errors.
#pragma once

#include <netlink/netlink.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "ipoib/result.hpp"

namespace ipoib::linux {

/// `code` is a negative libnl error, which is no errno value. For those of system calls that it has
/// no code for, errno says more.
[[nodiscard]] inline Error netlink_error(const std::string& what, int code) {
  const int reason = errno;
  if (code == -NLE_FAILURE && reason != 0)
    return Error{reason, what + ": " + std::strerror(reason)};
  return Error{0, what + ": " + nl_geterror(code)};
}

}  // namespace ipoib::linux
