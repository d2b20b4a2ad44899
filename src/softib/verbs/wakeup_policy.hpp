// Decides whom senders wake for the packets of a process. docs/states.md has the tables of its
// states: "Wakeups for datagrams" and "Wakeups for connections".
//
// Datagrams, for each completion queue of receives: nobody is woken while a program polls the
// queue; the program that reads its completion channel is woken once the queue is armed, if the
// channel is O_NONBLOCK; the engine is woken in all other cases. A sender wakes the channel's
// program for a packet before it is known whether that completes a receive. The program that reads
// the channel (ibv_get_cq_event) then receives the packets and finds an event or none. With
// O_NONBLOCK, it must expect the latter (EAGAIN).
//
// Requests of the peers of connections matter whatever the program does: memory is written, and
// requests are acknowledged. So the engine is woken for them, unless the program will probably poll
// at once: its last poll found nothing, or it is used to poll after what it has just done
// (PollHabit). If it has not polled within kPollCheck, the engine takes over again.
//
// Responses to the requests of connections only matter once somebody looks: to a program that
// polls, or that has armed a queue. They matter to requests that wait for the responses to others,
// too; but a program that polls takes those itself, so the engine is woken for them only once the
// program has not polled between two checks, and until it polls. A program that polls also goes on
// with what could not be sent at once. A program that only posts does neither.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "softib/hca/completion_queue.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/verbs/poll_habit.hpp"

namespace softib::verbs {

/// How often the engine checks whether the program still polls.
inline constexpr ipoib::Duration kPollCheck = std::chrono::milliseconds(1);
/// A program polls at once if it does within so much time after it has taken completions.
inline constexpr ipoib::Duration kSoonAfterCompletions = std::chrono::microseconds(2);
/// The same after posting requests; it is longer, since the processor may have been given to a
/// process that was woken for them.
inline constexpr ipoib::Duration kSoonAfterPosting = std::chrono::microseconds(10);

/// What the policy knows of a completion queue.
struct QueueWakeups {
  const hca::CompletionQueue* model = nullptr;
  std::atomic<std::uint32_t> waiter = transport::Waiter::kEngine;  ///< for datagrams
  std::vector<Qpn> receivers;  ///< queue pairs of datagrams whose receives complete here
};

/// Guarded by the lock of the model, except where stated otherwise.
class WakeupPolicy {
 public:
  /// Sets a waiter as WakeupTable::set_waiter() does.
  using SetWaiter = std::function<void(std::size_t entry, std::uint32_t waiter)>;
  explicit WakeupPolicy(SetWaiter set) : set_(std::move(set)) {}

  // --- Objects ---------------------------------------------------------------------------------
  /// Both `queue` and `model` must exist until remove().
  void add(QueueWakeups& queue, const hca::CompletionQueue& model);
  void remove(QueueWakeups& queue) { std::erase(queues_, &queue); }
  /// `queue` gets the receive completions of the queue pair.
  void add_receiver(Qpn qp, QueueWakeups& queue);
  void remove_receiver(Qpn qp, QueueWakeups& queue);
  void add_connection();
  void remove_connection();

  // --- What the program does -------------------------------------------------------------------
  /// Notes that the program polls; needs no lock. Returns whether on_empty_poll() must be called if
  /// it finds the queue empty.
  [[nodiscard]] bool must_note_poll(const QueueWakeups& queue) {
    return queue.waiter != transport::Waiter::kNone || must_note_poll();
  }
  /// The program has found a queue empty. Unless that is armed, the program will poll again.
  void on_empty_poll(QueueWakeups& queue, ipoib::TimePoint now);
  /// Notes that the program polls, and found completions. Returns whether on_completions() must be
  /// called, too.
  [[nodiscard]] bool must_note_completions();
  /// Returns whether the caller has to read the rings: packets may have come that nobody was woken
  /// for.
  [[nodiscard]] bool on_completions(ipoib::TimePoint now);
  /// Whether the engine takes the packets of connections. Only then begin_post() and end_call() are
  /// called before and after requests of a connection are posted.
  [[nodiscard]] bool engine_takes() const { return taker_ == Taker::engine; }
  void begin_post(ipoib::TimePoint now);
  /// The call of the program ends that has posted, or for which on_completions() was called: until
  /// now it could not poll.
  void end_call(ipoib::TimePoint now);
  /// The queue has just been armed. `reader` is the waiter that stands for its completion channel;
  /// nullopt if it has none. Packets that arrived before wake no thread: after arming, a program
  /// polls once more.
  void on_armed(QueueWakeups& queue, std::optional<std::uint32_t> reader);
  /// The channel of this waiter was readable, and the packets have been received. Makes it the
  /// waiter of its armed queues again. Packets that arrive before this returns wake no thread.
  void on_channel_read(std::uint32_t reader);

  // --- What connections need -------------------------------------------------------------------
  /// Whether requests wait for responses.
  void set_needs_responses(bool needs_responses);
  /// Whether the program has polled lately, or is expected to. check() notices if it does not.
  [[nodiscard]] bool is_program_present() const { return needs_checks() && !is_any_armed_; }
  [[nodiscard]] bool needs_checks() const {
    return taker_ == Taker::program || (taker_ == Taker::engine && needs_responses_ && !is_absent_);
  }
  /// Returns the time at which the rings have to be read for check(), or kNever.
  [[nodiscard]] ipoib::TimePoint start_checks(ipoib::TimePoint now);
  /// The rings have just been read. Returns the time of the next check, or kNever.
  [[nodiscard]] ipoib::TimePoint check(ipoib::TimePoint now);

 private:
  /// Who takes the packets of connections; nobody: there are none.
  enum class Taker : std::uint8_t { nobody, engine, program };

  [[nodiscard]] bool must_note_poll() {
    const auto by = taker_.load(std::memory_order_relaxed);
    if (by == Taker::program) has_polled_.store(true, std::memory_order_relaxed);
    return by == Taker::engine;
  }
  void set_queue_waiter(QueueWakeups& queue, std::uint32_t waiter);
  void set_multicast_waiter();
  [[nodiscard]] bool is_any_armed() const;
  void set_taker(Taker taker);
  void note_poll();
  void set_connection_waiter(std::size_t entry, std::uint32_t& current, bool is_engine);

  const SetWaiter set_;
  std::vector<QueueWakeups*> queues_;

  std::size_t connections_ = 0;
  std::atomic<Taker> taker_ = Taker::nobody;
  std::uint32_t requests_ = transport::Waiter::kEngine;
  std::uint32_t responses_ = transport::Waiter::kEngine;
  bool is_any_armed_ = false;
  bool needs_responses_ = false;
  bool is_absent_ = false;  ///< had not polled at the last check, and has not done so since
  bool must_read_ = false;  ///< responses may have come that nobody was woken for
  std::atomic<bool> has_polled_ = false;  ///< since the last check, or is expected to
  PollHabit after_completions_{kSoonAfterCompletions};
  PollHabit after_posting_{kSoonAfterPosting};
  ipoib::TimePoint check_at_ = ipoib::kNever;
};

}  // namespace softib::verbs
