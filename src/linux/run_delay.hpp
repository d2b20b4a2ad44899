// How long a thread has waited for a processor.
#pragma once

#include <optional>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/time.hpp"

namespace ipoib::host {

class RunDelay {
 public:
  /// Of the calling thread: /proc/thread-self/schedstat.
  RunDelay();
  /// In all its life. Nothing: the kernel does not say (no CONFIG_SCHED_INFO, no /proc).
  [[nodiscard]] std::optional<Duration> read() const;

 private:
  FileDescriptor fd_;
};

}  // namespace ipoib::host
