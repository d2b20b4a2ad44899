// Measures the cost of a trace record, without a reader, which is the usual case.
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
