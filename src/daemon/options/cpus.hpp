// The CPUs that the threads of interfaces are pinned to (--cpu).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ipoib/result.hpp"

namespace ipoib::daemon {

/// CPUs have numbers below this.
inline constexpr unsigned kMaxCpus = 1024;

/// Whether a thread of this process may run on the CPU: it exists, is online and is in the cpuset.
[[nodiscard]] bool can_run_on(unsigned cpu);

/// Distributes threads among CPUs. Not thread-safe, except Share::pin_thread().
class CpuShares {
 public:
  /// Without CPUs, threads are not pinned.
  explicit CpuShares(const std::vector<unsigned>& cpus);

  /// The CPU of one thread: the first of those that have the fewest threads.
  class Share {
   public:
    explicit Share(CpuShares& shares);
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share();

    /// Returns nullopt if threads are not pinned.
    [[nodiscard]] std::optional<unsigned> cpu() const;
    /// Pins the calling thread. Fails if the CPU is offline meanwhile.
    [[nodiscard]] Result<void> pin_thread() const;

   private:
    CpuShares& shares_;
    const std::size_t index_;
  };

 private:
  struct Use {
    unsigned cpu = 0;
    std::size_t threads = 0;
  };
  [[nodiscard]] std::size_t least_used() const;

  std::vector<Use> uses_;
};

}  // namespace ipoib::daemon
