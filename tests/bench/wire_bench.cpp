// Measures the transport between two processes: one sends packets in batches as the HCA model does,
// the other counts what arrives. Prints packets and bits per second, and the CPU time per packet.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "packets.hpp"
#include "test_subnet.hpp"

namespace {

using softib::test::TestSubnet;
using softib::test::TextPacket;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kDuration{2};
const std::string kLast = "last";

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Counter : softib::endpoint::PacketReceiver {
  void receive(std::span<const softib::ArrivedPacket> batch) override {
    packets += batch.size();
    // A small packet ends the stream.
    if (batch.back().bytes.size() < 40) done = true, done.notify_one();
  }
  void port_changed(const softib::PortAttributes&) override {}
  std::uint64_t packets = 0;
  std::atomic<bool> done = false;
};

void receive(const TestSubnet& subnet, int ready) {
  const auto endpoint = subnet.attach(2);
  Counter counter;
  endpoint->set_receiver(&counter);
  if (::write(ready, "x", 1) != 1) std::abort();
  counter.done.wait(false);
  endpoint->set_receiver(nullptr);
  std::printf("  received %lu packets, %.0f ns of CPU each\n", counter.packets,
              cpu_seconds() / static_cast<double>(counter.packets) * 1e9);
}

void send(const TestSubnet& subnet, std::size_t payload, std::size_t batch_size) {
  const auto endpoint = subnet.attach(1);
  const auto to = softib::QpnLayout::make(1, 0, 1);
  const TextPacket packet(TestSubnet::lid(1), TestSubnet::lid(2), to, std::string(payload, 'x'));
  const std::vector<softib::OutgoingPacket> batch(batch_size, packet.outgoing());
  const double cpu = cpu_seconds();
  const auto start = steady_clock::now();
  std::uint64_t packets = 0;
  std::chrono::duration<double> spent{};
  for (; spent < kDuration; spent = steady_clock::now() - start) {
    endpoint->send(batch);
    packets += batch.size();
  }
  const auto rate = static_cast<double>(packets) / spent.count();
  std::printf("%zu bytes, batches of %zu: %.0f packets/s, %.2f Gb/s, %.0f ns of CPU each\n",
              payload, batch_size, rate, rate * static_cast<double>(payload) * 8e-9,
              (cpu_seconds() - cpu) / static_cast<double>(packets) * 1e9);
  const auto lost =
      endpoint->counters()[static_cast<std::size_t>(softib::fabric::PortCounter::drop_congested)];
  if (lost != 0) std::printf("  dropped %lu\n", lost);
  softib::test::send_text(*endpoint, TestSubnet::lid(2), to, kLast);
}

void run(std::size_t payload, std::size_t batch) {
  const TestSubnet subnet;
  int ready[2];
  if (::pipe(ready) != 0) std::abort();
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    receive(subnet, ready[1]);
    std::fflush(stdout);
    ::_exit(0);
  }
  char byte = 0;
  if (::read(ready[0], &byte, 1) != 1) std::abort();
  send(subnet, payload, batch);
  std::fflush(stdout);
  ::waitpid(child, nullptr, 0);
}

}  // namespace

int main() {
  for (const std::size_t batch : {1, 4, 16, 64}) run(2044, batch);
  for (const std::size_t batch : {1, 16}) run(64, batch);
}
