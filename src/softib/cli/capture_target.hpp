// Finds the target of a capture: a file, a pipe, or the standard output.
#pragma once

#include <string>

#include "ipoib/result.hpp"

namespace softib::cli {

/// Returns the path to give to endpoint::CaptureFile, also in programs that this process executes.
/// For "-" and /dev/stdout, that is a descriptor of the present standard output, and standard
/// output becomes a copy of standard error: nothing but packets goes into the capture. Fails with
/// EINVAL if that would be a terminal.
[[nodiscard]] ipoib::Result<std::string> capture_target(const std::string& given);

}  // namespace softib::cli
