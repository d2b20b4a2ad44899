// Defines the functions of unsupported.def. Their C++ names differ from their symbols, because the
// prototypes in verbs.h have parameters, which do not matter here.
#include <cerrno>

#define DEFINE(type, name)                                                                    \
  extern "C" __attribute__((visibility("default"))) type unsupported_##name() __asm__(#name); \
  type unsupported_##name()
#define RETURN_ERRNO(name) \
  DEFINE(int, name) { return errno = EOPNOTSUPP; }
#define RETURN_NULL(name) \
  DEFINE(void*, name) {   \
    errno = EOPNOTSUPP;   \
    return nullptr;       \
  }
#define RETURN_VOID(name) \
  DEFINE(void, name) { errno = EOPNOTSUPP; }

#include "softib/verbs/unsupported.def"

#undef DEFINE
#undef RETURN_ERRNO
#undef RETURN_NULL
#undef RETURN_VOID
