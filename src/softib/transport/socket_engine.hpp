// The way in, and the thread that plays the HCA: accepts connections, reads messages, takes packets
// out of rings, keeps a deadline, and hands all of it to a WireReceiver. It sleeps in epoll_wait(2)
// and nowhere else; without traffic it never wakes.
//
// Whoever waits for packets may do without it: a thread that polls takes arrivals itself, one that
// sleeps on a completion channel has a bell. The door says so to the senders, and then the engine
// sleeps on; only if nobody takes what fills a ring, its sender calls.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "softib/transport/arrivals.hpp"
#include "softib/transport/fork_guard.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/transport/wire.hpp"
#include "softib/transport/wire_message.hpp"

namespace softib::transport {

/// How long senders wait in the listener's queue when the process has no descriptor left for them.
inline constexpr std::chrono::milliseconds kAcceptPause{200};
/// This many messages are read of one sender in a turn; the rest comes in the next.
inline constexpr std::size_t kMessagesPerTurn = 64;

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

  /// Hands packets that have come to the receiver, in this thread. False: there were none.
  bool take_arrivals() { return arrivals_.take(); }
  /// Who is to be woken for packets: an entry of the door, and an Attendant or a bell.
  void attend(std::size_t entry, std::uint32_t attendant) { door_.attend(entry, attendant); }
  /// An eventfd that is to be written to instead of waking the engine; valid until remove_bell().
  /// Returns its number; Attendant::kEngine when there are kMaxBells.
  [[nodiscard]] std::uint32_t add_bell(int event);
  void remove_bell(std::uint32_t bell);

 private:
  static constexpr std::size_t kEventsPerTurn = 64;
  struct Sender {
    GuardedFd socket;
    std::list<int>::iterator silence;
    bool has_ring = false;
    std::uint32_t told = 0;  ///< the last bell that it knows of
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
  [[nodiscard]] bool read_from(int fd, std::size_t limit);
  [[nodiscard]] bool take_message(int fd);
  void tell_of_bells(Sender& sender);

  int listener_;
  WireReceiver& receiver_;
  GuardedFd epoll_;
  GuardedFd wake_;
  GuardedFd timer_;
  std::unordered_map<int, Sender> senders_;
  std::list<int> by_silence_;                   ///< of senders_, the one silent for longest first
  ipoib::TimePoint resume_at_ = ipoib::kNever;  ///< when not accepting
  MessageReader reader_;
  Arrivals arrivals_;
  ipoib::FileDescriptor door_memory_;
  Door door_;
  bool called_ = false;  ///< to take what is in the rings
  std::mutex bells_mutex_;
  std::map<std::uint32_t, int> bells_;
  std::atomic<std::uint32_t> last_bell_ = Attendant::kFirstBell - 1;
  std::uint32_t told_ = Attendant::kFirstBell - 1;  ///< up to which every sender has been told
  std::atomic<bool> stopping_ = false;
  const std::uint32_t generation_ = fork_generation();
  std::thread thread_;
};

}  // namespace softib::transport
