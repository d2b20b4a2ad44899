// Blocks signals in threads that the emulated HCA starts in a program.
#pragma once

#include <pthread.h>

#include <csignal>

namespace softib::transport {

/// Blocks all signals for the calling thread during its lifetime, and so for the threads that it
/// starts: signals must be delivered to threads of the application. Signals that the threads
/// themselves may cause stay unblocked: otherwise the kernel would end the process without calling
/// the application's handler.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
      ::sigdelset(&all, own);
    }
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace softib::transport
