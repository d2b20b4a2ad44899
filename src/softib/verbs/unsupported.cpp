// Defines the names of unsupported.def. Their parameters do not matter, so they are declared
// without any: verbs.h, which has the real prototypes, must not be included here.
#include <cerrno>

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define NUMBER(name) \
  EXPORTED int name() { return errno = EOPNOTSUPP; }
#define POINTER(name)     \
  EXPORTED void* name() { \
    errno = EOPNOTSUPP;   \
    return nullptr;       \
  }
#define NOTHING(name) \
  EXPORTED void name() { errno = EOPNOTSUPP; }

#include "softib/verbs/unsupported.def"
