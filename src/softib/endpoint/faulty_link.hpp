// A link with faults, for tests: loses, duplicates, reorders, delays and corrupts the packets that
// an HCA sends. It also holds those that a cable between switches delays.
//
// Packets that are delayed or overtaken are copied and wait here; a thread, which runs only if
// there have been any, sends them when their time has come. The decisions are pseudo-random. With a
// seed from the operator the same packets have the same faults, counted from when these were set.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/bit_errors.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/core/link_faults.hpp"
#include "softib/transport/fork_guard.hpp"
#include "softib/transport/wire_packet.hpp"

namespace softib::endpoint {

/// The most packets that wait; more are lost.
inline constexpr std::size_t kMaxHeldPackets = 8192;
/// How long a packet is held back so that later ones overtake it.
inline constexpr std::chrono::milliseconds kOvertakingTime{10};

using transport::WirePacket;

class FaultyLink {
 public:
  using Send = std::function<void(const WirePacket&)>;
  enum class Event : std::uint8_t { lost, duplicated };
  using Count = std::function<void(Event)>;

  /// `send` and `count` are called by send() or by the thread of this object, without a lock.
  /// `seed` is for faults that have none.
  FaultyLink(Send send, Count count, std::uint64_t seed)
      : send_(std::move(send)), count_(std::move(count)), random_(seed) {}
  FaultyLink(const FaultyLink&) = delete;
  FaultyLink& operator=(const FaultyLink&) = delete;
  ~FaultyLink() { stop(); }

  // Sets the faults; from any thread.
  void set(const LinkFaults& faults);
  void send(WirePacket packet);
  /// Holds a packet that a cable delays.
  void hold(WirePacket packet, ipoib::Duration wait);
  /// Ends the thread and drops the packets that wait. In a forked child it only forgets the thread.
  void stop();

 private:
  /// Lets the packet wait. Returns false if it is lost, because too many wait.
  [[nodiscard]] bool keep(WirePacket packet, ipoib::Duration wait);
  /// Corrupts the packet if its faults say so, and sends or holds it.
  void dispatch(WirePacket packet);
  void run();

  const Send send_;
  const Count count_;
  const std::uint32_t generation_ = transport::fork_generation();
  std::mutex mutex_;  ///< guards the members below
  LinkFaults faults_;
  FaultRandom random_;
  std::multimap<ipoib::TimePoint, WirePacket> held_;
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace softib::endpoint
