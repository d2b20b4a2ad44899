// Measures the cost of large packets: segmenting one of 64 KiB, coalescing its segments, and a
// checksum.
#include <benchmark/benchmark.h>

#include <cstring>

#include "offload/coalescer.hpp"
#include "tests/sim/memory_tun.hpp"
#include "tests/unit/offload/packets.hpp"

namespace {

using namespace ipoib;
using namespace ipoib::offload;
using offload::test::Bytes;

constexpr std::size_t kPayload = 64'000;

test::PacketSpec spec(std::size_t mtu) {
  test::PacketSpec out;
  out.payload = kPayload / (mtu - 52) * (mtu - 52);
  return out;
}

/// A sink that the optimizer cannot remove.
class NoHost : public sim::MemoryTun {
 public:
  NoHost() : MemoryTun("none") { accepts_large = true; }
  bool write(ConstBytes packet) override {
    benchmark::DoNotOptimize(packet.data());
    return true;
  }
  bool write_large(std::span<const ConstBytes> pieces, const Segmentation&) override {
    benchmark::DoNotOptimize(pieces.data());
    return true;
  }
};

void segment(benchmark::State& state) {
  const auto mtu = static_cast<std::size_t>(state.range(0));
  FramePool pool(1, 70'000);
  const Frame frame = test::large_frame(pool, spec(mtu), mtu - 52);
  std::array<std::uint8_t, kMaxHeaders> header;
  for (auto _ : state) {
    for (auto segmenter = ipoib::offload::make_segmenter(frame, 0); !segmenter.done();) {
      benchmark::DoNotOptimize(segmenter.next(header.data()));
    }
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(frame.size()));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(frame.datagrams()));
}
BENCHMARK(segment)->Arg(2044)->Arg(4092);

void coalesce(benchmark::State& state) {
  const auto mtu = static_cast<std::size_t>(state.range(0));
  FramePool large(1, 70'000);
  const Frame frame = test::large_frame(large, spec(mtu), mtu - 52);
  const auto segments = test::segments_of(frame);
  FramePool pool(64, 4200);
  NoHost host;
  Coalescer coalescer(host);
  for (auto _ : state) {
    for (const Bytes& segment : segments) {
      Frame packet = pool.take();
      packet.window(44, segment.size());
      std::memcpy(packet.bytes().data(), segment.data(),
                  segment.size());  // as a device does; included in the time
      coalescer.add(std::move(packet));
    }
    coalescer.flush();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(frame.size()));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(segments.size()));
}
BENCHMARK(coalesce)->Arg(2044)->Arg(4092);

void checksum(benchmark::State& state) {
  const Bytes bytes(static_cast<std::size_t>(state.range(0)), 0x5a);
  for (auto _ : state) benchmark::DoNotOptimize(wire::internet_checksum(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(checksum)->Arg(20)->Arg(64)->Arg(2044)->Arg(65'535);

}  // namespace

BENCHMARK_MAIN();
