// Errors that several objects of the HCA report.
#pragma once

#include <cerrno>

#include "ipoib/result.hpp"

namespace softib::hca {

[[nodiscard]] inline ipoib::Error hca_failed() {
  return {
      EIO,
      "the HCA has failed: open its device again when it is back (softib set hca NAME present)"};
}
[[nodiscard]] inline ipoib::Error no_such_port() {
  return {EINVAL, "the HCA has no such port: ibv_query_device() says how many it has"};
}

}  // namespace softib::hca
