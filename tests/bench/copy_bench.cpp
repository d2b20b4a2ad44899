// Measures how fast two processes pass blocks of 64 KiB on: through shared memory, where the sender
// copies each block in and the receiver copies it out, and through a pipe. Prints Gb/s of each.
//
// Usage: bench_copy SECONDS
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::size_t kBlock = 65536;
constexpr std::size_t kBlocks = 16;  // in flight in shared memory: 1 MiB, as a ring of softib

double since(std::chrono::steady_clock::time_point start) {
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

void print(const char* name, std::uint64_t blocks, double seconds) {
  std::printf("%s %.2f\n", name, static_cast<double>(blocks * kBlock) * 8e-9 / seconds);
  std::fflush(stdout);
}

struct Shared {
  alignas(64) std::atomic<std::uint64_t> written = 0;
  alignas(64) std::atomic<std::uint64_t> read = 0;
  alignas(64) std::atomic<bool> ended = false;
  alignas(4096) char blocks[kBlocks][kBlock];
};

void receive(Shared& shared) {
  std::vector<char> own(kBlock);
  for (std::uint64_t block = 0;; ++block) {
    while (shared.written.load(std::memory_order_acquire) == block) {
      if (shared.ended.load(std::memory_order_relaxed)) return;
    }
    std::memcpy(own.data(), shared.blocks[block % kBlocks], kBlock);
    shared.read.store(block + 1, std::memory_order_release);
  }
}

void send(Shared& shared, double seconds) {
  const std::vector<char> own(kBlock, 'x');
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t block = 0;
  for (; since(start) < seconds; ++block) {
    while (block - shared.read.load(std::memory_order_acquire) == kBlocks) continue;
    std::memcpy(shared.blocks[block % kBlocks], own.data(), kBlock);
    shared.written.store(block + 1, std::memory_order_release);
  }
  while (shared.read.load(std::memory_order_acquire) != block) continue;
  print("memcpy", block, since(start));
  shared.ended = true;
}

void measure_memcpy(double seconds) {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto& shared = *new (memory) Shared;
  const pid_t child = ::fork();
  if (child == 0) {
    receive(shared);
    ::_exit(0);
  }
  send(shared, seconds);
  ::waitpid(child, nullptr, 0);
}

void measure_pipe(double seconds) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  std::vector<char> own(kBlock, 'x');
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    while (::read(ends[0], own.data(), kBlock) > 0) continue;
    ::_exit(0);
  }
  ::close(ends[0]);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t blocks = 0;
  for (; since(start) < seconds; ++blocks) {
    if (::write(ends[1], own.data(), kBlock) != static_cast<ssize_t>(kBlock)) std::abort();
  }
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  print("pipe", blocks, since(start));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc == 2 ? std::atof(argv[1]) : 0;
  if (seconds <= 0) {
    std::fputs("usage: bench_copy SECONDS\n", stderr);
    return 2;
  }
  measure_memcpy(seconds);
  measure_pipe(seconds);
}
