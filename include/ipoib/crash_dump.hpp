// Writes the trace when a signal kills the process.
#pragma once

#include <signal.h>

#include <array>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/trace.hpp"

namespace ipoib {

/// While it exists, SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write all rings to a descriptor,
/// and then take their previous action: a core dump, or a sanitizer's report. This includes stack
/// overflows of threads with an alternate signal stack. If nobody reads the descriptor, the crash
/// is not delayed for more than SignalSafeText::kPatience.
///
/// A signal handler has no context argument, so this class has the only static pointer of the
/// program. At most one object may exist at a time (asserted).
class CrashDump {
 public:
  /// `rings` must outlive this. The trace is written to `fd`, which stays open meanwhile.
  CrashDump(const TraceRings& rings, int fd);
  CrashDump(const CrashDump&) = delete;
  CrashDump& operator=(const CrashDump&) = delete;
  ~CrashDump();

 private:
  static constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  static void on_signal(int number, siginfo_t* info, void* context);
  void restore() const;

  const TraceRings& rings_;
  const FileDescriptor reopened_;  ///< the same pipe or terminal in non-blocking mode
  const int fd_;
  std::array<struct sigaction, kSignals.size()> previous_{};
};

}  // namespace ipoib
