// The receiving side of the wire, and the thread that acts as the HCA: it accepts connections,
// reads messages, reads packets from rings, keeps a deadline, and passes all of it to a
// WireReceiver. It sleeps in epoll_wait(2) only, and never wakes without traffic or a deadline.
//
// Packets need not go through this thread: a thread that polls for completions reads the rings
// itself, and one that sleeps on a completion channel has a wakeup descriptor. The wakeup table
// tells the senders, so the engine sleeps on. If nobody empties a ring that is full, its sender
// wakes the engine.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "softib/transport/fork_guard.hpp"
#include "softib/transport/linger.hpp"
#include "softib/transport/receive_rings.hpp"
#include "softib/transport/unix_socket.hpp"
#include "softib/transport/wakeup_socket.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/transport/wire.hpp"
#include "softib/transport/wire_message.hpp"

namespace softib::transport {

/// How long accepting pauses when the process has no descriptor left; senders wait in the queue.
inline constexpr std::chrono::milliseconds kAcceptPause{200};
/// At most this many messages of one sender are read per iteration of the loop, and at most this
/// many senders are accepted, so that a flood delays the others and the deadline by one iteration.
inline constexpr std::size_t kMessagesPerTurn = 64;
inline constexpr std::size_t kAcceptsPerTurn = 64;
/// At most this many messages are read from a sender that is being disconnected: more than the
/// buffer of a sender of this library holds (kSocketBuffer; each message takes 512 bytes or more).
inline constexpr std::size_t kMessagesAtEviction = 2 * kSocketBuffer / 512;

/// Senders that have not read the last descriptor that they were sent. The processes of a user may
/// have as many descriptors in flight as their limit of descriptors (ETOOMANYREFS, unix(7)), so an
/// engine has a 16th of it.
inline constexpr std::size_t kLeastUnreadAnswers = 4;
inline constexpr std::size_t kMostUnreadAnswers = 1024;
[[nodiscard]] std::size_t max_unread_answers();

/// The engine. Up to max_connections() senders are connected. For a further one the least recently
/// active is disconnected: what it has sent is delivered, and it connects again when it sends more.
/// The same goes for the one that has left its answer unread for longest, if there are more of
/// those than max_unread_answers().
class SocketEngine {
 public:
  /// Starts the thread. `listener` and `receiver` must outlive the engine.
  /// Throws std::system_error when the system has no descriptors or threads left.
  SocketEngine(int listener, WireReceiver& receiver);
  ~SocketEngine();
  SocketEngine(const SocketEngine&) = delete;
  SocketEngine& operator=(const SocketEngine&) = delete;

  /// Stops and joins the thread and closes all descriptors of the engine. Afterwards the engine
  /// uses neither the listener nor the receiver, and calls of the other functions have no effect.
  /// Must not be called by the engine thread.
  void stop();
  [[nodiscard]] bool is_current_thread() const;
  /// Sets the deadline, kNever for none; from any thread.
  void set_deadline(ipoib::TimePoint when);
  void wake();  ///< makes the loop run once; from any thread

  /// Adds the source that is read with the rings, and waits for its descriptor; or changes it.
  /// Calls `change` first, while nobody uses the source, which must exist until stop().
  void set_source(PacketSource& source, const std::function<void()>& change);
  /// Delivers packets from the rings to the receiver, in this thread. Returns false if there were
  /// none.
  bool poll_receive_rings() { return rings_.poll(); }
  /// Sets an entry of the wakeup table to a Waiter or the number of a wakeup descriptor.
  void set_waiter(std::size_t entry, std::uint32_t waiter);
  /// Lets senders wake the program that waits for the socket instead of the engine. The socket must
  /// exist until remove_wakeup_fd(). Returns the number of its wakeup descriptors, or
  /// Waiter::kEngine when there are kMaxWakeupFds.
  [[nodiscard]] std::uint32_t add_wakeup_fd(const WakeupSocket& socket);
  void remove_wakeup_fd(std::uint32_t number);
  /// Reports to the receiver when the other end closes the socket of a connection to `process`.
  /// Returns false if the system has no memory for that. From any thread, like connection_ended().
  [[nodiscard]] bool watch(int socket, Process process) const;
  /// Reports to the receiver, once, when the other end of a socket is closed. It may be closed by
  /// then. Returns false if the system has no memory for that.
  [[nodiscard]] bool watch_hangup(int fd) const;
  /// Reports that the connection has ended.
  void connection_ended(Process process);

 private:
  /// One of the descriptors of the source.
  struct SourceWatch {
    const std::uint64_t key;  ///< what epoll reports
    int (PacketSource::*const descriptor)() const;
    bool is_armed = false;  ///< the kernel wakes the engine for it, once
    bool is_ready = false;  ///< it has, in this turn
  };
  struct Sender {
    GuardedFd socket;
    std::list<int>::iterator activity;
    bool has_ring = false;
    bool has_wakeup_table = false;
    std::uint32_t wakeups = 0;  ///< received before it had the wakeup table
    std::optional<std::list<int>::iterator> unread;
  };
  void run();
  void turn();
  [[nodiscard]] bool fall_asleep();
  void arm_source();
  void watch_source(SourceWatch& watch, int operation);
  void rearm_source();
  [[nodiscard]] bool watch(int fd) const;
  void report_ended_connections();
  [[nodiscard]] bool accept_one();
  void make_room();
  void pause_accepting();
  void resume_accepting();
  void evict(int fd);
  void forget(int fd);
  void on_readable(int fd);
  [[nodiscard]] bool read_from(int fd, std::size_t limit);
  [[nodiscard]] bool handle_message(int fd);
  [[nodiscard]] bool add_ring(int fd);
  void woken_by(int fd);
  [[nodiscard]] bool send_wakeup_fd(int fd);
  [[nodiscard]] bool send_objects(int fd);
  [[nodiscard]] bool answer(int fd, MessageKind kind, ipoib::ConstBytes body, int descriptor);
  void limit_unread_answers();

  int listener_;
  WireReceiver& receiver_;
  GuardedFd epoll_;
  std::mutex descriptors_mutex_;  ///< so that stop() closes neither while another thread uses it
  GuardedFd wake_;
  GuardedFd timer_;
  std::map<int, Sender> senders_;
  std::list<int> by_activity_;  ///< of senders_, the least recently active first
  std::list<int> unread_;       ///< senders that have an answer to read, the oldest first
  ipoib::TimePoint resume_at_ = ipoib::kNever;  ///< while accepting is paused
  MessageReader reader_;
  ReceiveRings rings_;
  WakeupTable wakeup_table_;
  Linger linger_;
  std::atomic<PacketSource*> source_ = nullptr;
  std::mutex source_mutex_;
  enum class Waits : std::uint8_t { unset, no, yes };
  std::vector<Waits> waiters_;       ///< by entry of the wakeup table: whether its waiter waits
  std::size_t waiting_entries_ = 0;  ///< those that do
  SourceWatch all_of_source_;
  SourceWatch others_of_source_;  ///< all but responses
  bool notified_ = false;         ///< the rings have to be read
  bool deadline_passed_ = false;
  bool answered_ = false;           ///< a sender got a descriptor
  bool needs_descriptors_ = false;  ///< a ring did not arrive for lack of one
  std::mutex wakeup_fds_mutex_;
  std::map<std::uint32_t, const WakeupSocket*> wakeup_fds_;
  std::uint32_t last_wakeup_fd_ = Waiter::kFirstWakeupFd - 1;
  std::mutex ended_mutex_;
  std::vector<Process> ended_;  ///< connections that have ended, not yet reported
  std::atomic<bool> stopping_ = false;
  const std::uint32_t generation_ = fork_generation();
  std::thread thread_;
};

}  // namespace softib::transport
