// Measures the cost of a packet through a ring, by size and batch: the writer copies it in, the
// reader finds it and copies it out. Both are in one thread, so cache misses between two processors
// are not included.
#include <benchmark/benchmark.h>

#include <cstring>

#include "softib/transport/ring.hpp"

namespace softib {
namespace {

void ring(benchmark::State& state) {
  const auto memory = transport::make_ring_memory().value();
  transport::RingWriter writer(transport::RingMemory::map(memory.get()).value());
  transport::RingReader reader(transport::RingMemory::map(memory.get()).value());
  const std::vector<std::uint8_t> payload(static_cast<std::size_t>(state.range(0)));
  OutgoingPacket packet;
  packet.header_size = ipoib::wire::Lrh::kSize + ipoib::wire::Bth::kSize + ipoib::wire::Deth::kSize;
  packet.add(payload);
  const std::vector<const OutgoingPacket*> batch(static_cast<std::size_t>(state.range(1)), &packet);
  std::vector<std::uint8_t> buffer(kMaxPacketBytes);
  std::vector<ArrivedPacket> taken;
  for (auto _ : state) {
    if (writer.put(batch) != batch.size()) return state.SkipWithError("the ring is full");
    taken.clear();
    if (!reader.read(taken, batch.size())) return state.SkipWithError("the ring is broken");
    for (const auto& each : taken) {
      std::memcpy(buffer.data(), each.bytes.data(), each.bytes.size());
    }
    benchmark::DoNotOptimize(buffer.data());
    benchmark::ClobberMemory();
    reader.release();
  }
  state.SetItemsProcessed(state.iterations() * state.range(1));
}
BENCHMARK(ring)->ArgsProduct({{64, 2044}, {1, 16}});

}  // namespace
}  // namespace softib

BENCHMARK_MAIN();
