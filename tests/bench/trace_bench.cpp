// What a trace record costs. Nobody reads the ring meanwhile, as on almost every day of a daemon's
// life.
#include <benchmark/benchmark.h>

#include <memory>

#include "ipoib/trace.hpp"

namespace {

void trace_record(benchmark::State& state) {
  const auto ring = std::make_unique<ipoib::TraceRing>("bench");
  const ipoib::TimePoint turn{std::chrono::seconds(1)};
  std::uint64_t number = 0;
  for (auto _ : state) ring->record("tx", turn, number, ~number), ++number;
}
BENCHMARK(trace_record);

}  // namespace

BENCHMARK_MAIN();
