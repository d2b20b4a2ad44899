// Writes the trace when the process dies of a signal.
#pragma once

#include <signal.h>

#include <array>

#include "ipoib/trace.hpp"

namespace ipoib {

/// While it lives, SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write all rings into a descriptor
/// and then do what they did before: a core is dumped, a sanitizer reports. A thread with an
/// alternate signal stack gets this for an overflow of its stack as well.
///
/// A signal handler has no argument to be handed its rings by: the one static pointer of the
/// program is here, and so at most one object of this class may live at a time (asserted).
class CrashDump {
 public:
  /// `rings` must outlive this; `fd` is where the log goes.
  CrashDump(const TraceRings& rings, int fd);
  CrashDump(const CrashDump&) = delete;
  CrashDump& operator=(const CrashDump&) = delete;
  ~CrashDump();

 private:
  static constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  static void on_signal(int number, siginfo_t* info, void* context);
  void restore() const;

  const TraceRings& rings_;
  int fd_;
  std::array<struct sigaction, kSignals.size()> previous_{};
};

}  // namespace ipoib
