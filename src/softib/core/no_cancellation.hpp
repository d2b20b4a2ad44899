// Calls of the C library that wait, or that use descriptors, are points at which a thread can be
// cancelled (pthreads(7)): then its stack is unwound. Most functions that softib defines are no
// such points for programs, and they hold locks and change shared state.
//
// In libsoftib.so no call that softib makes itself is such a point (verbs/uncancelled_calls.cpp).
// The C++ library makes others, so all functions but those of the data path disable cancellation
// as a whole.
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

/// The calls of the thread during the lifetime of the object are cancellation points: it waits for
/// the program.
class CancellationPoint {
 public:
  CancellationPoint() { is_inside_ = true; }
  CancellationPoint(const CancellationPoint&) = delete;
  CancellationPoint& operator=(const CancellationPoint&) = delete;
  ~CancellationPoint() { is_inside_ = false; }
  [[nodiscard]] static bool is_inside() { return is_inside_; }

 private:
  inline static thread_local bool is_inside_ = false;
};

}  // namespace softib
