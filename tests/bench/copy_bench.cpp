// Measures how fast two processes pass blocks of 64 KiB on: through shared memory, where the sender
// copies each block in and the receiver copies it out, and through a pipe. Prints Gb/s of each;
// "cold" is the first with 1,000 blocks of their own on each side, which no cache holds. "direct"
// and "direct-cold" are one copy: the sender's own blocks are shared memory, and the receiver reads
// them there. "byte" is how many microseconds one byte takes through a pipe to a process that
// sleeps.
//
// Usage: bench_copy SECONDS
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
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

/// The child ends with its parent.
pid_t fork_child() {
  const pid_t child = ::fork();
  if (child == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

struct Shared {
  alignas(64) std::atomic<std::uint64_t> written = 0;
  alignas(64) std::atomic<std::uint64_t> read = 0;
  alignas(64) std::atomic<bool> ended = false;
  alignas(4096) char blocks[kBlocks][kBlock];
};

void receive(Shared& shared, std::size_t own_blocks) {
  std::vector<char> own(own_blocks * kBlock);
  for (std::uint64_t block = 0;; ++block) {
    while (shared.written.load(std::memory_order_acquire) == block) {
      if (shared.ended.load(std::memory_order_relaxed)) return;
    }
    std::memcpy(&own[block % own_blocks * kBlock], shared.blocks[block % kBlocks], kBlock);
    shared.read.store(block + 1, std::memory_order_release);
  }
}

void send(Shared& shared, std::size_t own_blocks, const char* name, double seconds) {
  const std::vector<char> own(own_blocks * kBlock, 'x');
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t block = 0;
  for (; since(start) < seconds; ++block) {
    while (block - shared.read.load(std::memory_order_acquire) == kBlocks) continue;
    std::memcpy(shared.blocks[block % kBlocks], &own[block % own_blocks * kBlock], kBlock);
    shared.written.store(block + 1, std::memory_order_release);
  }
  while (shared.read.load(std::memory_order_acquire) != block) continue;
  print(name, block, since(start));
  shared.ended = true;
}

void measure_memcpy(std::size_t own_blocks, const char* name, double seconds) {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto& shared = *new (memory) Shared;
  const pid_t child = fork_child();
  if (child == 0) {
    receive(shared, own_blocks);
    ::_exit(0);
  }
  send(shared, own_blocks, name, seconds);
  ::waitpid(child, nullptr, 0);
  ::munmap(memory, sizeof(Shared));
}

/// The sender owns a block until it has been read, as it does until an acknowledgement comes.
void measure_direct(std::size_t own_blocks, const char* name, double seconds) {
  const auto bytes = sizeof(Shared) + own_blocks * kBlock;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto& shared = *new (memory) Shared;
  char* const blocks = static_cast<char*>(memory) + sizeof(Shared);
  std::memset(blocks, 'x', own_blocks * kBlock);
  const pid_t child = fork_child();
  if (child == 0) {
    std::vector<char> own(own_blocks * kBlock);
    for (std::uint64_t block = 0;; ++block) {
      while (shared.written.load(std::memory_order_acquire) == block) {
        if (shared.ended.load(std::memory_order_relaxed)) ::_exit(0);
      }
      const auto at = block % own_blocks * kBlock;
      std::memcpy(&own[at], blocks + at, kBlock);
      shared.read.store(block + 1, std::memory_order_release);
    }
  }
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t block = 0;
  while (since(start) < seconds) {
    while (block - shared.read.load(std::memory_order_acquire) == kBlocks) continue;
    shared.written.store(++block, std::memory_order_release);
  }
  while (shared.read.load(std::memory_order_acquire) != block) continue;
  print(name, block, since(start));
  shared.ended = true;
  ::waitpid(child, nullptr, 0);
  ::munmap(memory, bytes);
}

void measure_pipe(double seconds) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  std::vector<char> own(kBlock, 'x');
  const pid_t child = fork_child();
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

void pass_on(int from, int to) {
  for (char byte; ::read(from, &byte, 1) == 1;) {
    if (::write(to, &byte, 1) != 1) return;
  }
}

void measure_byte(double seconds) {
  int there[2];
  int back[2];
  if (::pipe(there) != 0 || ::pipe(back) != 0) std::abort();
  const pid_t child = fork_child();
  if (child == 0) {
    ::close(there[1]);
    pass_on(there[0], back[1]);
    ::_exit(0);
  }
  ::close(there[0]);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t trips = 0;
  for (char byte = 0; since(start) < seconds; trips += 2) {
    if (::write(there[1], &byte, 1) != 1 || ::read(back[0], &byte, 1) != 1) std::abort();
  }
  std::printf("byte %.2f\n", since(start) * 1e6 / static_cast<double>(trips));
  ::close(there[1]);
  ::waitpid(child, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc == 2 ? std::atof(argv[1]) : 0;
  if (seconds <= 0) {
    std::fputs("usage: bench_copy SECONDS\n", stderr);
    return 2;
  }
  measure_memcpy(1, "memcpy", seconds);
  measure_memcpy(1000, "cold", seconds);
  measure_direct(1, "direct", seconds);
  measure_direct(1000, "direct-cold", seconds);
  measure_pipe(seconds);
  measure_byte(seconds);
}
