// The way in, and the thread that plays the HCA: accepts connections, reads packets in batches,
// keeps a deadline, and hands all of it to a WireReceiver. It sleeps in epoll_wait(2) and nowhere
// else; without traffic it never wakes.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "softib/fork_guard.hpp"
#include "softib/train.hpp"
#include "softib/wire.hpp"

namespace softib {

/// Senders that are connected at a time; beyond, the one silent for longest is cut off. It finds
/// out when it sends, and connects again.
inline constexpr std::size_t kMaxSenders = 1024;

class SocketEngine {
 public:
  /// Starts the thread. `listener` and `receiver` must outlive the engine.
  /// Throws std::system_error when the system has no descriptors or threads left.
  SocketEngine(int listener, WireReceiver& receiver);
  /// Ends and joins the thread.
  ~SocketEngine();
  SocketEngine(const SocketEngine&) = delete;
  SocketEngine& operator=(const SocketEngine&) = delete;

  [[nodiscard]] bool is_current_thread() const;
  /// From any thread; kNever for none.
  void set_deadline(ipoib::TimePoint when);
  /// Makes the engine turn. From any thread.
  void wake();

 private:
  static constexpr std::size_t kMessagesPerRead = 4;
  static constexpr std::size_t kEventsPerTurn = 64;
  struct Scratch;
  struct Sender {
    GuardedFd socket;
    std::uint64_t last_turn = 0;
  };

  void run();
  void turn();
  [[nodiscard]] bool watch(int fd) const;
  void accept_all();
  bool make_room();
  void read_from(int fd);
  std::size_t unload_all(std::size_t messages);

  int listener_;
  WireReceiver& receiver_;
  GuardedFd epoll_;
  GuardedFd wake_;
  GuardedFd timer_;
  GuardedFd reserve_;  ///< given up for a moment when the process has no descriptor left
  std::unordered_map<int, Sender> senders_;
  std::uint64_t turns_ = 0;
  std::unique_ptr<Scratch> scratch_;
  std::atomic<bool> stopping_ = false;
  const std::uint32_t generation_ = fork_generation();
  std::thread thread_;
};

}  // namespace softib
