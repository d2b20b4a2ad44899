// Shared memory by which a receiving process tells its senders which thread to wake for a packet.
//
// The receiver creates the memory and sends its descriptor to every sender, which maps it too. It
// holds one word for the engine and one for each queue pair (and one for all multicast packets).
// All accesses are sequentially consistent.
//
//   entry (waiter)   set by the receiver: kEngine, kNone, or the number of a wakeup descriptor;
//                    a sender changes it in claim() only, from a wakeup descriptor to kNone
//   engine           awake -> asleep, notified -> awake: the engine; any -> notified: a sender
//
// An entry: a sender stores the ring's `written`, then loads the entry. A receiver stores the
// entry, then loads `written`. At least one of the two loads sees the other side's store (Dekker's
// algorithm), so either the sender wakes the receiver, or the receiver finds the packet before it
// sleeps.
//
// The engine's word: a sender stores `written`, then sets `notified` unless it is set. The engine
// cannot fall asleep while it is notified, and reads the rings after it has changed `notified` to
// `awake`. That change follows the sender's access, so the engine sees the packet.
//
// The sender whose claim() or notify_engine() succeeds has to do the wakeup. All others need not,
// until the receiver sets the entry again, or the engine sleeps again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "softib/core/fabric_types.hpp"
#include "softib/transport/shared_memory.hpp"

namespace softib::transport {

/// Values of an entry: who receives packets for a queue pair.
struct Waiter {
  static constexpr std::uint32_t kEngine = 0;         ///< the process's engine
  static constexpr std::uint32_t kNone = 1;           ///< a thread that polls; no wakeup is needed
  static constexpr std::uint32_t kFirstWakeupFd = 2;  ///< from here: number of a wakeup descriptor
};

/// Wakeup descriptors of one process; each is the eventfd(2) of a completion channel. The engine
/// receives for further channels.
inline constexpr std::size_t kMaxWakeupFds = 64;

[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> make_wakeup_table_memory();

class WakeupTable {
 public:
  /// The entry of a queue pair is QpnLayout::index() of its number; this one is for multicast.
  static constexpr std::size_t kMulticast = QpnLayout::kQpsPerSlot;

  /// EINVAL if `memory` is not that of a wakeup table.
  [[nodiscard]] static ipoib::Result<WakeupTable> map(int memory);

  // Receiver.
  /// The caller has to read the rings once before the new waiter sleeps.
  void set_waiter(std::size_t entry, std::uint32_t waiter) {
    layout().waiters[entry].store(waiter, std::memory_order_seq_cst);
  }
  /// Marks the engine as asleep. False if it has been notified; then it must not sleep.
  [[nodiscard]] bool fall_asleep() {
    auto awake = static_cast<std::uint32_t>(Engine::awake);
    return layout().engine.compare_exchange_strong(awake,
                                                   static_cast<std::uint32_t>(Engine::asleep));
  }
  /// Marks the engine as awake. Returns whether it has been notified since the last call.
  bool wake_up() { return exchange(Engine::awake) == Engine::notified; }

  // Sender, after it has stored the ring's `written`.
  [[nodiscard]] std::uint32_t waiter(std::size_t entry) const {
    return layout().waiters[entry].load(std::memory_order_seq_cst);
  }
  /// Replaces `wakeup_fd` by kNone. True if the entry held it: the caller has to write to it.
  [[nodiscard]] bool claim(std::size_t entry, std::uint32_t wakeup_fd) {
    return layout().waiters[entry].compare_exchange_strong(wakeup_fd, Waiter::kNone);
  }
  /// Asks the engine to read the rings. True if it was asleep: the caller has to wake it.
  [[nodiscard]] bool notify_engine() {
    const auto notified = static_cast<std::uint32_t>(Engine::notified);
    return layout().engine.load(std::memory_order_seq_cst) != notified &&
           exchange(Engine::notified) == Engine::asleep;
  }

 private:
  enum class Engine : std::uint32_t { awake, asleep, notified };
  struct Layout {
    std::atomic<std::uint32_t> engine;
    alignas(64) std::array<std::atomic<std::uint32_t>, kMulticast + 1> waiters;
  };
  friend ipoib::Result<ipoib::FileDescriptor> make_wakeup_table_memory();
  static constexpr std::size_t kBytes = (sizeof(Layout) + 4095) / 4096 * 4096;

  explicit WakeupTable(SharedMapping memory) : memory_(std::move(memory)) {}
  Engine exchange(Engine state) {
    return static_cast<Engine>(layout().engine.exchange(static_cast<std::uint32_t>(state)));
  }
  [[nodiscard]] Layout& layout() const { return *reinterpret_cast<Layout*>(memory_.data()); }

  SharedMapping memory_;
};

}  // namespace softib::transport
