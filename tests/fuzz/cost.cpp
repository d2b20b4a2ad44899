#include "cost.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace ipoib {

namespace {

[[gnu::tls_model("initial-exec")]] thread_local constinit std::uint64_t work = 0;

/// With the environment variable FUZZ_COST set, prints at the end what the most expensive step
/// under each limit has cost, from which the limits are chosen.
struct Record {
  std::map<std::uint64_t, std::uint64_t> most_by_limit;
  const bool wanted = std::getenv("FUZZ_COST") != nullptr;
  ~Record() {
    for (const auto& [limit, most] : most_by_limit) {
      std::fprintf(stderr, "cost: %llu of %llu\n", static_cast<unsigned long long>(most),
                   static_cast<unsigned long long>(limit));
    }
  }
};
Record record;

}  // namespace

std::uint64_t work_done() { return work; }

CostLimit::~CostLimit() {
  const std::uint64_t cost = (work - begin_) / things_;
  if (record.wanted) {
    auto& most = record.most_by_limit[most_];
    most = std::max(most, cost);
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
// them by these (cmake/Options.cmake). The first one runs for each edge, so no sanitizer checks it.
extern "C" {
__attribute__((no_sanitize("coverage", "address", "undefined"))) void
__wrap___sanitizer_cov_trace_pc_guard(std::uint32_t* /*guard*/) {
  ++ipoib::work;
}
__attribute__((no_sanitize("coverage"))) void __wrap___sanitizer_cov_trace_pc_guard_init(
    std::uint32_t* /*start*/, std::uint32_t* /*stop*/) {}
}
