// Who sleeps in a receiving process, and how to wake it: memory that the process hands to its
// senders, and bells, which are event descriptors (eventfd(2)) of its completion channels.
//
// A sender publishes a packet, then looks here; a receiver says here that it is going to sleep,
// then looks for packets. Both sides in sequentially consistent order, so at least one of the two
// sees the other, and nobody sleeps over a packet. Whoever rings says so by taking the entry
// away, so one ring is enough for all that follows until the receiver sleeps again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "softib/core/fabric_types.hpp"
#include "softib/transport/shared_memory.hpp"

namespace softib::transport {

/// Who looks after the packets for a queue pair. Above these: the number of a bell.
struct Attendant {
  static constexpr std::uint32_t kEngine = 0;  ///< the process's engine
  static constexpr std::uint32_t kNobody = 1;  ///< nobody has to be told: it is polled for
  static constexpr std::uint32_t kFirstBell = 2;
};

/// Bells of one process. Completion channels beyond get their packets by way of the engine.
inline constexpr std::size_t kMaxBells = 64;

[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> make_door_memory();

class Door {
 public:
  /// Entries of the queue pairs by QpnLayout::index(), and of multicast.
  static constexpr std::size_t kMulticast = QpnLayout::kQpsPerSlot;

  /// EINVAL: no memory of a door.
  [[nodiscard]] static ipoib::Result<Door> map(int memory);

  // The receiver's side.
  void attend(std::size_t entry, std::uint32_t attendant) {
    layout().attendants[entry].store(attendant, std::memory_order_seq_cst);
  }
  /// False: the engine must not sleep, it has been called.
  [[nodiscard]] bool fall_asleep() {
    auto awake = static_cast<std::uint32_t>(Engine::awake);
    return layout().engine.compare_exchange_strong(awake,
                                                   static_cast<std::uint32_t>(Engine::asleep));
  }
  /// Whether the engine has been called since it woke up the last time.
  bool wake_up() { return exchange(Engine::awake) == Engine::called; }

  // The sender's side, after publishing.
  [[nodiscard]] std::uint32_t attendant(std::size_t entry) const {
    return layout().attendants[entry].load(std::memory_order_seq_cst);
  }
  /// Whether it is the caller who has to ring this bell.
  [[nodiscard]] bool claim(std::size_t entry, std::uint32_t bell) {
    return layout().attendants[entry].compare_exchange_strong(bell, Attendant::kNobody);
  }
  /// Has the engine take what is published. True: it sleeps, and the caller has to wake it.
  [[nodiscard]] bool call_engine() {
    const auto called = static_cast<std::uint32_t>(Engine::called);
    return layout().engine.load(std::memory_order_seq_cst) != called &&
           exchange(Engine::called) == Engine::asleep;
  }

 private:
  enum class Engine : std::uint32_t { awake, asleep, called };
  struct Layout {
    std::atomic<std::uint32_t> engine;
    alignas(64) std::array<std::atomic<std::uint32_t>, kMulticast + 1> attendants;
  };
  friend ipoib::Result<ipoib::FileDescriptor> make_door_memory();
  static constexpr std::size_t kOctets = (sizeof(Layout) + 4095) / 4096 * 4096;

  explicit Door(SharedMapping memory) : memory_(std::move(memory)) {}
  Engine exchange(Engine state) {
    return static_cast<Engine>(layout().engine.exchange(static_cast<std::uint32_t>(state)));
  }
  [[nodiscard]] Layout& layout() const { return *reinterpret_cast<Layout*>(memory_.data()); }

  SharedMapping memory_;
};

}  // namespace softib::transport
