// Calls of the C library that wait, or that use descriptors, are points at which a thread can be
// cancelled (pthreads(7)): then its stack is unwound. Most functions that softib defines are no
// such points for programs, and they hold locks and change shared state.
#pragma once

#include <pthread.h>

namespace softib {

/// The thread is not cancelled during the lifetime of the object, but at its next cancellation
/// point after that.
class NoCancellation {
 public:
  NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace softib
