// The way in, and the thread that plays the HCA: accepts connections, reads packets in batches,
// keeps a deadline, and hands all of it to a WireReceiver. It sleeps in epoll_wait(2) and nowhere
// else; without traffic it never wakes.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "softib/fork_guard.hpp"
#include "softib/train.hpp"
#include "softib/wire.hpp"

namespace softib {

/// How long senders wait in the listener's queue when the process has no descriptor left for them.
inline constexpr std::chrono::milliseconds kAcceptPause{200};

/// max_connections() senders are connected at a time; beyond, the one silent for longest is cut
/// off. What it has sent arrives; it finds out when it sends more, and connects again.
class SocketEngine {
 public:
  /// Starts the thread. `listener` and `receiver` must outlive the engine.
  /// Throws std::system_error when the system has no descriptors or threads left.
  SocketEngine(int listener, WireReceiver& receiver);
  ~SocketEngine();
  SocketEngine(const SocketEngine&) = delete;
  SocketEngine& operator=(const SocketEngine&) = delete;

  /// Ends and joins the thread, and closes the connections to it: from then on the engine is
  /// neither at the listener nor in the receiver. Not from the engine itself.
  void stop();
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
    std::list<int>::iterator silence;
  };

  void run();
  void turn();
  [[nodiscard]] bool watch(int fd) const;
  void accept_all();
  [[nodiscard]] bool accept_one();
  void pause_accepting();
  void resume_accepting();
  void cut_off(int fd);
  void forget(int fd);
  void on_readable(int fd);
  [[nodiscard]] bool read_from(int fd);
  std::size_t unload_all(std::size_t messages);

  int listener_;
  WireReceiver& receiver_;
  GuardedFd epoll_;
  GuardedFd wake_;
  GuardedFd timer_;
  std::unordered_map<int, Sender> senders_;
  std::list<int> by_silence_;                   ///< of senders_, the one silent for longest first
  ipoib::TimePoint resume_at_ = ipoib::kNever;  ///< when not accepting
  std::unique_ptr<Scratch> scratch_;
  std::atomic<bool> stopping_ = false;
  const std::uint32_t generation_ = fork_generation();
  std::thread thread_;
};

}  // namespace softib
