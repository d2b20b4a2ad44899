// Tells senders which thread to wake for a packet to the queue pairs of a completion queue: none
// while a program polls the queue; its completion channel once the queue is armed, if the channel
// is O_NONBLOCK; the engine in all other cases.
//
// A sender wakes the channel's program for a packet before it is known whether that completes a
// receive. The program that reads the channel (ibv_get_cq_event) then receives the
// packets and finds an event or none. With O_NONBLOCK, it must expect the latter (EAGAIN).
//
// The packets of connections matter to programs that do not poll, too: memory is written,
// and requests are acknowledged. So the engine waits for them, unless the program will probably
// poll at once: its last poll found nothing, or it is used to poll on (PollHabit). If it has not
// within kAttendanceCheck, the engine waits again.
#pragma once

#include <atomic>
#include <vector>

#include "softib/endpoint/endpoint.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/verbs/poll_habit.hpp"

namespace softib::verbs {

struct CompChannel;
struct Cq;

/// How often the engine checks whether a program that polled still does.
inline constexpr ipoib::Duration kAttendanceCheck = std::chrono::milliseconds(1);

/// Guarded by the lock of the model, except where stated otherwise.
class WaiterRegistry {
 public:
  explicit WaiterRegistry(endpoint::Endpoint& endpoint) : endpoint_(endpoint) {}

  void add(Cq& cq) { all_.push_back(&cq); }
  void remove(Cq& cq) { std::erase(all_, &cq); }
  /// `receives` is the queue for the receive completions of `qp`.
  void add(Qpn qp, const Cq& receives);
  void remove(Qpn qp);

  /// A program has polled the queue and found it empty. Unless it is armed, it will poll again.
  void on_polled(Cq& cq);
  // Connections.
  void add_connection();
  void remove_connection();
  /// Whether on_polled() must be called although the waiter of the queue is right. Without a lock.
  [[nodiscard]] bool must_note_poll() {
    const auto attendance = attendance_.load(std::memory_order_relaxed);
    if (attendance == Attendance::poller) has_polled_.store(true, std::memory_order_relaxed);
    return attendance == Attendance::engine;
  }
  [[nodiscard]] bool attends_by_polling() const { return attendance_ == Attendance::poller; }
  /// A program has polled and found completions. Returns whether the caller has to read the rings.
  [[nodiscard]] bool on_completions();
  /// Returns the time of the next check, for check_attendance().
  [[nodiscard]] ipoib::TimePoint start_checks();
  /// The rings have just been read. Returns the time of the next check, or kNever.
  [[nodiscard]] ipoib::TimePoint check_attendance(ipoib::TimePoint now);

  /// The queue has just been armed. Packets that arrived before wake no thread: after arming, a
  /// program polls once more.
  void on_armed(Cq& cq);
  /// The channel was readable, and the packets have been received. Makes the channel the waiter of
  /// its armed queues again. Packets that arrive before this returns wake no thread.
  void on_channel_read(const CompChannel& channel);

 private:
  /// Makes the engine the waiter. Returns false if it is already; otherwise the caller has to read
  /// the rings.
  bool let_engine_attend();
  /// Who takes the packets of connections.
  enum class Attendance : std::uint8_t { nobody, engine, poller };
  [[nodiscard]] bool is_any_armed() const;
  void set_waiter(Cq& cq, std::uint32_t waiter);
  void set_multicast_waiter();

  endpoint::Endpoint& endpoint_;
  std::vector<Cq*> all_;
  std::size_t connections_ = 0;
  std::atomic<Attendance> attendance_ = Attendance::nobody;  ///< nobody: there are no connections
  std::atomic<bool> has_polled_ = false;                     ///< since the last check
  PollHabit habit_;
  ipoib::TimePoint check_at_ = ipoib::kNever;
};

}  // namespace softib::verbs
