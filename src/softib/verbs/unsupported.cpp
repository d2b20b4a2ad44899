// Defines the names of unsupported.def. Their parameters do not matter, so they are declared
// without any: verbs.h, which has the real prototypes, must not be included here.
#include <cerrno>

using Pointer = void*;

#define NUMBER(name) \
  extern "C" __attribute__((visibility("default"))) int name() { return errno = EOPNOTSUPP; }
#define POINTER(name)                                                \
  extern "C" __attribute__((visibility("default"))) Pointer name() { \
    errno = EOPNOTSUPP;                                              \
    return nullptr;                                                  \
  }
#define NOTHING(name) \
  extern "C" __attribute__((visibility("default"))) void name() { errno = EOPNOTSUPP; }

#include "softib/verbs/unsupported.def"
