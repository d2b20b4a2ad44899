// Shared memory by which a receiving process tells its senders which thread to wake for a packet.
//
// The receiver creates the memory and sends its descriptor to every sender, which maps it too, but
// cannot write to it. It holds one word for the engine and one for each queue pair (and one for all
// multicast packets, two for all connections). Each sender remembers for itself which wakeups it
// has sent, so none can suppress the wakeup of another. All accesses are sequentially consistent.
//
//   entry   | time 40 | waiter 24 |   waiter: kEngine, kNone, or the number of a wakeup descriptor
//   engine  | time 63 | asleep 1 |
//
// `time` differs each time that a waiter or the engine may begin to sleep. A sender that has woken
// it once at that time need not wake it again.
//
// An entry: a sender stores the ring's `written`, then loads the entry. A receiver stores the
// entry, then loads `written`. At least one of the two loads sees the other side's store (Dekker's
// algorithm), so either the sender wakes the receiver, or the receiver finds the packet before it
// sleeps.
//
// The engine's word: a sender stores `engine_requested` of its ring, then loads the word. The
// engine stores `asleep`, then loads `engine_requested` of all rings, and does not sleep if one is
// set. After it has slept, it stores `awake` and loads them again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "softib/core/fabric_types.hpp"
#include "softib/transport/shared_memory.hpp"

namespace softib::transport {

/// The values of an entry: the receiver of packets for a queue pair.
struct Waiter {
  static constexpr std::uint32_t kEngine = 0;         ///< the process's engine
  static constexpr std::uint32_t kNone = 1;           ///< a thread that polls; no wakeup is needed
  static constexpr std::uint32_t kFirstWakeupFd = 2;  ///< from here: number of a wakeup descriptor
  static constexpr std::uint32_t kMask = (1U << 24) - 1;
};

/// Wakeup descriptors of one process at a time; each is for the WakeupSocket of a completion
/// channel. The engine receives for further channels.
inline constexpr std::size_t kMaxWakeupFds = 64;

/// The entries that are read for packets.
struct WakeupEntry {
  /// The entry of all multicast packets. That of a queue pair of datagrams is QpnLayout::index() of
  /// its number.
  static constexpr std::size_t kMulticast = QpnLayout::kQpsPerSlot;
  static constexpr std::size_t kRequests = kMulticast + 1;  ///< of all connections
  static constexpr std::size_t kResponses = kRequests + 1;  ///< of all connections
  static constexpr std::size_t kCount = kResponses + 1;
};

struct WakeupLayout {
  static constexpr std::uint64_t kAsleep = 1;
  std::atomic<std::uint64_t> engine;
  alignas(64) std::array<std::atomic<std::uint64_t>, WakeupEntry::kCount> waiters;
};

/// The receiver's side; any thread may set waiters.
class WakeupTable {
 public:
  [[nodiscard]] static ipoib::Result<WakeupTable> make();
  WakeupTable(WakeupTable&& other) noexcept
      : descriptor_(std::move(other.descriptor_)), memory_(std::move(other.memory_)) {}

  /// The descriptor that senders map; -1 after close_descriptor().
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  void close_descriptor() { descriptor_.reset(); }
  /// Sets a waiter. The caller has to read the rings once before the new waiter sleeps.
  void set_waiter(std::size_t entry, std::uint32_t waiter);
  /// The engine is about to sleep. It then has to look for requests in the rings.
  void fall_asleep() { layout().engine.store(++engine_time_ << 1 | WakeupLayout::kAsleep); }
  void wake_up() { layout().engine.store(engine_time_ << 1); }

 private:
  WakeupTable(ipoib::FileDescriptor descriptor, SharedMapping memory)
      : descriptor_(std::move(descriptor)), memory_(std::move(memory)) {}
  [[nodiscard]] WakeupLayout& layout() const {
    return *reinterpret_cast<WakeupLayout*>(memory_.data());
  }

  ipoib::FileDescriptor descriptor_;
  SharedMapping memory_;
  std::atomic<std::uint64_t> time_ = 0;
  std::uint64_t engine_time_ = 0;
};

/// A sender's view of the table of a receiver, used after the sender has stored the ring's
/// `written`.
class WakeupView {
 public:
  /// Maps the table. Fails with EINVAL if `memory` is something else.
  [[nodiscard]] static ipoib::Result<WakeupView> map(int memory);

  /// An entry at one time; compared by set_woken().
  using Word = std::uint64_t;
  [[nodiscard]] Word entry(std::size_t entry) const { return layout().waiters[entry].load(); }
  [[nodiscard]] static std::uint32_t waiter(Word word) {
    return static_cast<std::uint32_t>(word) & Waiter::kMask;
  }
  /// Whether this sender remembers that it has woken the waiter at the time of `word`.
  [[nodiscard]] bool is_woken(std::size_t entry, Word word) const {
    return woken_[entry % woken_.size()] == word;
  }
  void set_woken(std::size_t entry, Word word) { woken_[entry % woken_.size()] = word; }
  /// Whether this sender has to wake the engine, which sleeps. True once for each of its sleeps.
  [[nodiscard]] bool must_wake_engine();

 private:
  explicit WakeupView(SharedMapping memory) : memory_(std::move(memory)) {}
  [[nodiscard]] const WakeupLayout& layout() const {
    return *reinterpret_cast<const WakeupLayout*>(memory_.data());
  }

  SharedMapping memory_;
  std::array<Word, 32> woken_{};  ///< the last words by entry; a word is of one entry only
  std::uint64_t engine_woken_ = 0;
};

}  // namespace softib::transport
