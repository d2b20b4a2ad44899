#include "softib/transport/fork_guard.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace softib::transport {

namespace {

/// Descriptors with higher numbers are not guarded.
constexpr std::size_t kMaxGuarded = 65536;
constexpr std::size_t kWordBits = 64;

constinit std::array<std::atomic<std::uint64_t>, kMaxGuarded / kWordBits> guarded{};
constinit std::atomic<std::uint32_t> generation{1};

constinit std::mutex fork_mutex;

/// Closes the guarded descriptors. Uses atomics only, since the parent's threads may have been
/// anywhere at the fork.
void close_in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t word = 0; word < guarded.size(); ++word) {
    for (auto bits = guarded[word].exchange(0); bits != 0; bits &= bits - 1) {
      ::close(static_cast<int>(word * kWordBits + static_cast<std::size_t>(__builtin_ctzll(bits))));
    }
  }
  fork_mutex.unlock();
}

/// Registers the handlers before those of all mutexes under which ForkLock is taken. Prepare
/// handlers run in reverse order, so a fork takes those mutexes first, as their holders do.
[[maybe_unused]] const bool registered_at_load = (register_fork_handlers(), true);

void mark(int fd, bool on) {
  const auto number = static_cast<std::size_t>(fd);
  if (number >= kMaxGuarded) return;
  const std::uint64_t bit = std::uint64_t{1} << (number % kWordBits);
  if (on) {
    guarded[number / kWordBits].fetch_or(bit);
  } else {
    guarded[number / kWordBits].fetch_and(~bit);
  }
}

}  // namespace

void register_fork_handlers() {
  [[maybe_unused]] static const int registered =
      ::pthread_atfork([] { fork_mutex.lock(); }, [] { fork_mutex.unlock(); }, close_in_child);
}

std::uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

ForkLock::ForkLock() { fork_mutex.lock(); }

ForkLock::~ForkLock() { fork_mutex.unlock(); }

GuardedFd::GuardedFd(ipoib::FileDescriptor fd, const ForkLock& /*lock*/)
    : fd_(std::move(fd)), generation_(fork_generation()) {
  if (fd_) mark(fd_.get(), true);
}

GuardedFd& GuardedFd::operator=(GuardedFd&& other) noexcept {
  reset();
  fd_ = std::move(other.fd_);
  generation_ = other.generation_;
  return *this;
}

void GuardedFd::reset() {
  if (!fd_) return;
  if (generation_ != fork_generation()) {
    (void)fd_.release();  // closed at the fork; the number may have been reused
    return;
  }
  const ForkLock lock;
  mark(fd_.get(), false);
  fd_.reset();
}

}  // namespace softib::transport
