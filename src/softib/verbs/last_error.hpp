// The reason why the last verb of a thread failed.
#pragma once

#include "softib/endpoint/last_error.hpp"

namespace softib::verbs {

using endpoint::set_last_error;

/// Stores the failure of a function that posts work requests, which has no text for each of its
/// conditions. Returns `code`; does nothing if that is 0.
int post_result(const char* verb, int code) noexcept;

}  // namespace softib::verbs
