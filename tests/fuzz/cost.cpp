#include "cost.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace ipoib {

namespace {

thread_local constinit std::uint64_t work = 0;

/// With the environment variable FUZZ_COST set, prints the most expensive step at the end, from
/// which a limit is chosen.
struct Record {
  std::uint64_t most = 0;
  std::uint64_t limit = 0;
  const bool wanted = std::getenv("FUZZ_COST") != nullptr;
  ~Record() {
    if (!wanted) return;
    std::fprintf(stderr, "cost: %llu of %llu\n", static_cast<unsigned long long>(most),
                 static_cast<unsigned long long>(limit));
  }
};
Record record;

}  // namespace

std::uint64_t work_done() { return work; }

CostLimit::~CostLimit() {
  const std::uint64_t cost = work - begin_;
  if (record.wanted) {
    record.most = std::max(record.most, cost);
    record.limit = most_;
    return;
  }
  if (cost > most_) {
    std::fprintf(stderr, "a step has cost %llu; the limit is %llu\n",
                 static_cast<unsigned long long>(cost), static_cast<unsigned long long>(most_));
  }
  require(cost <= most_);
}

}  // namespace ipoib

// libFuzzer has its own functions of these names, for older compilers; the linker's --wrap replaces
// them by these (cmake/Options.cmake).
extern "C" {
__attribute__((no_sanitize("coverage"))) void __wrap___sanitizer_cov_trace_pc_guard(
    std::uint32_t* /*guard*/) {
  ++ipoib::work;
}
__attribute__((no_sanitize("coverage"))) void __wrap___sanitizer_cov_trace_pc_guard_init(
    std::uint32_t* /*start*/, std::uint32_t* /*stop*/) {}
}
