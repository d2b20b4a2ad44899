#include "daemon/options/cpus.hpp"

#include <sched.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace ipoib::daemon {

static_assert(kMaxCpus == CPU_SETSIZE);

namespace {

/// Returns 0 or an errno value.
int pin_calling_thread(unsigned cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  return sched_setaffinity(0, sizeof only, &only) == 0 ? 0 : errno;
}

}  // namespace

/// Tries it: the CPUs of the calling thread can be fewer, and those of the system more.
bool can_run_on(unsigned cpu) {
  int error = EINVAL;
  if (cpu < kMaxCpus) std::thread([&] { error = pin_calling_thread(cpu); }).join();
  return error == 0;
}

CpuShares::CpuShares(const std::vector<unsigned>& cpus) {
  for (const unsigned cpu : cpus) uses_.push_back({cpu, 0});
}

std::size_t CpuShares::least_used() const {
  const auto least = std::ranges::min_element(uses_, {}, &Use::threads);
  return static_cast<std::size_t>(least - uses_.begin());
}

CpuShares::Share::Share(CpuShares& shares) : shares_(shares), index_(shares.least_used()) {
  if (!shares_.uses_.empty()) ++shares_.uses_[index_].threads;
}

CpuShares::Share::~Share() {
  if (!shares_.uses_.empty()) --shares_.uses_[index_].threads;
}

std::optional<unsigned> CpuShares::Share::cpu() const {
  if (shares_.uses_.empty()) return std::nullopt;
  return shares_.uses_[index_].cpu;
}

Result<void> CpuShares::Share::pin_thread() const {
  const auto wanted = cpu();
  const int error = wanted ? pin_calling_thread(*wanted) : 0;
  if (error == 0) return {};
  return Error{error,
               fmt::format("cannot pin the thread to CPU {}: {}; choose one with --cpu that this "
                           "process may use (taskset -cp PID)",
                           *wanted, strerror(error))};
}

}  // namespace ipoib::daemon
