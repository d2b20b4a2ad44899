#include "softib/verbs/last_error.hpp"

#include <infiniband/softibdv.h>

#include <cerrno>

#include "softib/verbs/abi.hpp"

namespace softib::verbs {

static_assert(SOFTIBDV_MAX_ERROR_TEXT == endpoint::kMaxErrorText);

int post_result(const char* verb, int code) noexcept {
  if (code == 0) return 0;
  set_last_error(verb, code,
                 code == ENOMEM ? "the queue is full"
                                : "a work request is invalid, or the state does not allow it");
  return code;
}

SOFTIB_ABI const char* softibdv_last_error() { return endpoint::last_error(); }

}  // namespace softib::verbs
