#include "ipoib/crash_dump.hpp"

#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cerrno>

#include "ipoib/signal_safe_text.hpp"

namespace ipoib {

namespace {

std::atomic<CrashDump*> g_dump{nullptr};

}  // namespace

CrashDump::CrashDump(const TraceRings& rings, int fd)
    : rings_(rings), reopened_(reopen_without_blocking(fd)), fd_(reopened_ ? reopened_.get() : fd) {
  [[maybe_unused]] CrashDump* const other = g_dump.exchange(this);
  assert(other == nullptr && "one crash dump per process");
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &previous_[i]);
}

CrashDump::~CrashDump() {
  restore();
  g_dump.store(nullptr);
}

void CrashDump::restore() const {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
}

void CrashDump::on_signal(int number, siginfo_t* info, void* /*context*/) {
  // The first thread writes the dump. Others that crash meanwhile wait until it ends the process.
  CrashDump* const self = g_dump.exchange(nullptr);
  if (self == nullptr) {
    for (;;) pause();
  }
  const int saved_errno = errno;
  self->rings_.write_text(self->fd_);
  self->restore();
  errno = saved_errno;
  // A faulting instruction is executed again, and raises the signal with its original context. A
  // signal that was sent must be sent again.
  const bool sent = info->si_code <= 0;
  if (sent) raise(number);
}

}  // namespace ipoib
