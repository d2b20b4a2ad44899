// What a trace record costs: nanoseconds each, the median and the best of several rounds, one line
// of JSON. Nobody reads the ring meanwhile, as on almost every day of a daemon's life.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "ipoib/trace.hpp"

int main() {
  constexpr int kRounds = 31;
  constexpr std::uint64_t kRecords = 1'000'000;
  const auto ring = std::make_unique<ipoib::TraceRing>("bench");
  std::vector<double> nanoseconds;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const ipoib::TimePoint turn(begin.time_since_epoch());
    for (std::uint64_t i = 0; i < kRecords; ++i) ring->record("tx", turn, i, ~i);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    nanoseconds.push_back(took.count() / static_cast<double>(kRecords));
  }
  std::sort(nanoseconds.begin(), nanoseconds.end());
  std::printf("{\"bench\":\"trace_record\",\"unit\":\"ns\",\"median\":%.2f,\"best\":%.2f}\n",
              nanoseconds[nanoseconds.size() / 2], nanoseconds.front());
  return 0;
}
