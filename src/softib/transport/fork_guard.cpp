// The table is a bit for each descriptor number: the child may look at it whatever the threads of
// its parent were doing at the moment of the fork.
#include "softib/transport/fork_guard.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace softib::transport {

namespace {

/// Numbers beyond are not guarded.
constexpr std::size_t kMaxGuarded = 65536;
constexpr std::size_t kWordBits = 64;

constinit std::array<std::atomic<std::uint64_t>, kMaxGuarded / kWordBits> guarded{};
constinit std::atomic<std::uint32_t> generation{1};

constinit std::mutex making;

void in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t word = 0; word < guarded.size(); ++word) {
    for (auto bits = guarded[word].exchange(0); bits != 0; bits &= bits - 1) {
      ::close(static_cast<int>(word * kWordBits + static_cast<std::size_t>(__builtin_ctzll(bits))));
    }
  }
  making.unlock();
}

/// At load, so before all handlers of locks under which something is guarded: a fork takes those
/// first (handlers of "prepare" run backwards), as their holders do.
[[maybe_unused]] const int fork_handlers =
    ::pthread_atfork([] { making.lock(); }, [] { making.unlock(); }, in_child);

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

std::uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

ForksHeldOff::ForksHeldOff() { making.lock(); }

ForksHeldOff::~ForksHeldOff() { making.unlock(); }

GuardedFd::GuardedFd(ipoib::FileDescriptor fd, const ForksHeldOff& /*held*/)
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
    (void)fd_.release();  // closed at the fork; the number may be somebody else's now
    return;
  }
  const ForksHeldOff held;
  mark(fd_.get(), false);
  fd_.reset();
}

}  // namespace softib::transport
