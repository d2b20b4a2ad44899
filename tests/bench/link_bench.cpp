// Measures the cost of a packet in a link, host to fabric and back, with one neighbour and with
// thousands, in batches as the pump has them; and the time and memory that the neighbour cache
// takes.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>

#include "ipoib/log.hpp"
#include "link/link.hpp"
#include "link/neighbour_table.hpp"
#include "tests/on_link.hpp"
#include "tests/support/address_handles.hpp"
#include "wire/arp.hpp"
#include "wire/encapsulation.hpp"

namespace {

using namespace ipoib;
using namespace ipoib::link;

constexpr std::size_t kBatch = 64;
constexpr std::size_t kPacket = 1500;
constexpr std::uint32_t kMany = 100'000;
constexpr Ipv4Address kOwn{0x0a000001};
constexpr std::uint32_t kFirstPeer = 0x0a000100;
constexpr HashKey kHashKey{0x0123456789abcdef, 0xfedcba9876543210};

/// A link that is up, with many reachable neighbours, each on its own port.
class Bench {
 public:
  explicit Bench(std::uint32_t neighbours) : neighbours_(neighbours) {
    PortStatus port;
    port.active = port.sm_known = true;
    port.lid = Lid(1);
    port.gid = Gid(Gid::kLinkLocalPrefix, Guid(1));
    port.pkey_index = 0;
    handles_.records = false;
    link_.on_host_changed(HostView{.addresses = {{kOwn, 8}}, .tables = test::all_on_link()}, now_);
    link_.on_port(port, now_);
    respond();
    for (std::uint32_t i = 0; i < neighbours; ++i) meet(i);
  }

  [[nodiscard]] Link& link() { return link_; }
  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] Frame packet(std::uint32_t peer) {
    Frame frame = pool_.take();
    frame.window(kHeadroom, kPacket);
    fill(frame.bytes(), kOwn, Ipv4Address(kFirstPeer + peer));
    return frame;
  }
  [[nodiscard]] Incoming datagram(std::uint32_t peer) {
    Incoming incoming;
    incoming.frame = pool_.take();
    incoming.frame.window(0, wire::kEncapsulationSize + kPacket);
    wire::emit_encapsulation(wire::EtherType::ipv4, incoming.frame.bytes().data());
    fill(incoming.frame.bytes().subspan(wire::kEncapsulationSize), Ipv4Address(kFirstPeer + peer),
         kOwn);
    incoming.source_lid = lid(peer);
    incoming.source_qpn = Qpn(100 + peer);
    return incoming;
  }
  [[nodiscard]] std::uint32_t random_peer() {
    return static_cast<std::uint32_t>(random_()) % neighbours_;
  }

 private:
  static void fill(MutableBytes packet, Ipv4Address from, Ipv4Address to) {
    packet[0] = 0x45;
    store_be<std::uint16_t>(packet.data() + 2, kPacket);
    std::ranges::copy(from.bytes(), packet.begin() + 12);
    std::ranges::copy(to.bytes(), packet.begin() + 16);
  }
  [[nodiscard]] static Config config_for(std::size_t neighbours) {
    Config config;
    config.limits.neighbours = config.limits.paths = std::max<std::size_t>(neighbours, 16);
    config.limits.paths_per_source = 2 * kMany;
    return config;
  }
  [[nodiscard]] static Lid lid(std::uint32_t peer) {
    return Lid(static_cast<std::uint16_t>(2 + peer % (kFirstMulticastLid.value() - 2)));
  }
  /// Handles a request and a reply of the peer, and the response with its path.
  void meet(std::uint32_t peer) {
    for (const auto operation : {wire::ArpOperation::request, wire::ArpOperation::reply}) {
      wire::Arp message;
      message.operation = operation;
      message.sender_hardware.qpn = Qpn(100 + peer);
      message.sender_hardware.gid = Gid(Gid::kLinkLocalPrefix, Guid(0x1000 + peer));
      message.sender_protocol = Ipv4Address(kFirstPeer + peer);
      message.target_protocol = kOwn;
      Incoming incoming;
      incoming.frame = pool_.take();
      incoming.frame.window(0, wire::kEncapsulationSize + wire::Arp::kSize);
      wire::emit_encapsulation(wire::EtherType::arp, incoming.frame.bytes().data());
      message.emit(incoming.frame.bytes().subspan(wire::kEncapsulationSize));
      incoming.source_lid = lid(peer);
      incoming.source_qpn = Qpn(100 + peer);
      link_.from_fabric({&incoming, 1}, now_);
      respond();
    }
    link_.sends().clear();
  }
  void respond() {
    while (!link_.events().empty()) {
      for (const Event& event : std::exchange(link_.events(), {})) {
        const auto* const request = std::get_if<wire::SaRequest>(&event);
        if (request == nullptr) continue;
        if (const auto* join = std::get_if<wire::JoinQuery>(&request->query)) {
          wire::McMemberRecord record = join->record;
          record.mlid = kFirstMulticastLid;
          record.mtu = 4;
          link_.on_response({request->id, record}, now_);
        } else if (const auto* query = std::get_if<wire::PathQuery>(&request->query)) {
          wire::PathRecord record = query->record;
          record.dlid = lid(static_cast<std::uint32_t>(record.dgid.guid().value() - 0x1000));
          record.mtu = 4;
          link_.on_response({request->id, record}, now_);
        }
      }
    }
  }

  std::uint32_t neighbours_;
  TimePoint now_{std::chrono::seconds(1)};
  FakeAddressHandles handles_;
  FramePool pool_{4 * kBatch, 2048};
  Logger log_{"link", std::make_shared<spdlog::sinks::null_sink_st>()};
  std::mt19937 random_{1};
  Link link_{config_for(neighbours_), {handles_, pool_, pool_, log_, kHashKey}, Qpn(99), 1};
};

/// Counts only the time of `action`, not that of its preparation.
void time(benchmark::State& state, auto&& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  state.SetIterationTime(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

/// The argument is the number of neighbours; each packet goes to a random one.
void from_host(benchmark::State& state) {
  Bench bench(static_cast<std::uint32_t>(state.range(0)));
  std::vector<Frame> batch(kBatch);
  for (auto _ : state) {
    bench.link().sends().clear();
    for (Frame& frame : batch) frame = bench.packet(bench.random_peer());
    time(state, [&] { bench.link().from_host(batch, bench.now()); });
  }
  if (bench.link().sends().size() != kBatch) std::abort();
  bench.link().sends().clear();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kBatch));
}
BENCHMARK(from_host)->Arg(1)->Arg(10)->Arg(100)->Arg(10'000)->Arg(kMany)->UseManualTime();

void from_fabric(benchmark::State& state) {
  Bench bench(static_cast<std::uint32_t>(state.range(0)));
  std::vector<Incoming> batch(kBatch);
  for (auto _ : state) {
    bench.link().to_host().clear();
    for (Incoming& datagram : batch) datagram = bench.datagram(bench.random_peer());
    time(state, [&] { bench.link().from_fabric(batch, bench.now()); });
  }
  if (bench.link().to_host().size() != kBatch) std::abort();
  bench.link().to_host().clear();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kBatch));
}
BENCHMARK(from_fabric)->Arg(1)->Arg(10)->Arg(100)->Arg(10'000)->Arg(kMany)->UseManualTime();

/// Only the cache, with random entries.
class Cache {
 public:
  explicit Cache(std::size_t count) : entries(count, kHashKey) {
    for (std::uint32_t i = 0; i < count; ++i) (void)entries.emplace(address(i), address(i));
  }
  [[nodiscard]] static IpAddress address(std::uint32_t i) { return Ipv4Address(kFirstPeer + i); }
  [[nodiscard]] IpAddress drawn() {
    return address(static_cast<std::uint32_t>(random_()) %
                   static_cast<std::uint32_t>(entries.size()));
  }
  cache::EntryTable<Neighbour, &Neighbour::address> entries;

 private:
  std::minstd_rand random_{1};
};

void lookup(benchmark::State& state) {
  Cache cache(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(cache.entries.find(cache.drawn())->last_use());
}
BENCHMARK(lookup)->Arg(10)->Arg(100)->Arg(10'000)->Arg(kMany);

/// Erases an entry and inserts it again.
void insertion(benchmark::State& state) {
  Cache cache(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const IpAddress address = cache.drawn();
    cache.entries.erase(*cache.entries.find(address));
    (void)cache.entries.emplace(address, address);
  }
}
BENCHMARK(insertion)->Arg(10)->Arg(100)->Arg(10'000)->Arg(kMany);

/// All entries change from Reachable to Stale, each at its time.
void ageing(benchmark::State& state) {
  for (auto _ : state) {
    Bench bench(static_cast<std::uint32_t>(state.range(0)));
    const TimePoint end = bench.now() + std::chrono::minutes(1);
    time(state, [&] {
      for (TimePoint next; (next = bench.link().next_deadline()) < end;) bench.link().tick(next);
    });
    bench.link().sends().clear();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(ageing)->Arg(100)->Arg(10'000)->Arg(kMany)->UseManualTime();

/// Heap memory of neighbours with a path and an address handle each.
void memory(benchmark::State& state) {
  double bytes = 0;
  for (auto _ : state) {
    const auto used = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
    const Bench none(0);
    const auto before = used();
    const Bench bench(static_cast<std::uint32_t>(state.range(0)));
    bytes = static_cast<double>(used() - before);
  }
  state.counters["bytes_per_neighbour"] = bytes / static_cast<double>(state.range(0));
}
BENCHMARK(memory)->Arg(kMany)->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
