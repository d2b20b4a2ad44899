// Defines the functions of unsupported.def. Their C++ names differ from their symbols, because the
// prototypes in verbs.h have parameters, which do not matter here.
#include <cerrno>

#include "softib/verbs/last_error.hpp"

#define DEFINE_NAMED(type, name)                                                              \
  extern "C" __attribute__((visibility("default"))) type unsupported_##name() __asm__(#name); \
  type unsupported_##name()
#define DEFINE(type, name) DEFINE_NAMED(type, name)
#define FAIL(name)                                                                        \
  softib::verbs::set_last_error(#name, EOPNOTSUPP, "softib does not have this function"); \
  errno = EOPNOTSUPP
#define RETURN_ERRNO(name) \
  DEFINE(int, name) {      \
    FAIL(name);            \
    return EOPNOTSUPP;     \
  }
#define RETURN_NULL(name) \
  DEFINE(void*, name) {   \
    FAIL(name);           \
    return nullptr;       \
  }
#define RETURN_VOID(name) \
  DEFINE(void, name) { FAIL(name); }

#include "softib/verbs/unsupported.def"

// Drivers of real adapters call it when a program loads them.
DEFINE(void, SOFTIB_REGISTER_DRIVER) {}

#undef DEFINE
#undef DEFINE_NAMED
#undef FAIL
#undef RETURN_ERRNO
#undef RETURN_NULL
#undef RETURN_VOID
