// A mutex that threads on several processors hold for microseconds.
//
// Whoever finds it held looks again for a while before it sleeps: to be woken takes longer than
// what the holder does, above all in a virtual machine.
#pragma once

#include <pthread.h>

namespace softib {

class AdaptiveMutex {
 public:
  AdaptiveMutex() = default;
  AdaptiveMutex(const AdaptiveMutex&) = delete;
  AdaptiveMutex& operator=(const AdaptiveMutex&) = delete;
  ~AdaptiveMutex() { ::pthread_mutex_destroy(&mutex_); }

  void lock() { ::pthread_mutex_lock(&mutex_); }
  bool try_lock() { return ::pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() { ::pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
};

}  // namespace softib
