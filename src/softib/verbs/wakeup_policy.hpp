// Decides who takes the packets of connections: the engine, or the program, which receives when it
// polls.
//
// Requests of the peers matter whatever the program does: memory is written, and requests are
// acknowledged. So the engine waits for them, unless the program will probably poll at once: its
// last poll found nothing, or it is used to poll after what it has just done (PollHabit). If it has
// not within kPollCheck, the engine waits again.
//
// Responses only matter once somebody looks: to a program that polls, or that has armed a queue.
// They matter to requests that wait for the responses to others, too; but a program that polls
// takes those itself, so the engine waits for them only once the program has not polled between two
// checks, and until it polls. Such a program also goes on with what could not be sent at once. A
// program that only posts does neither.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

#include "softib/transport/wakeup_table.hpp"
#include "softib/verbs/poll_habit.hpp"

namespace softib::verbs {

/// How often the engine checks whether the program still polls.
inline constexpr ipoib::Duration kPollCheck = std::chrono::milliseconds(1);
/// A program polls at once if it does within so much time after it has taken completions,
inline constexpr ipoib::Duration kSoonAfterCompletions = std::chrono::microseconds(2);
/// The same after posting requests; it is longer, since the processor may have been given to a
/// process that was woken for them.
inline constexpr ipoib::Duration kSoonAfterPosting = std::chrono::microseconds(10);

/// Guarded by the lock of the model, except where stated otherwise.
class WakeupPolicy {
 public:
  /// Sets a waiter as WakeupTable::set_waiter() does.
  using SetWaiter = std::function<void(std::size_t entry, std::uint32_t waiter)>;
  explicit WakeupPolicy(SetWaiter set) : set_(std::move(set)) {}

  void add_connection();
  void remove_connection();
  [[nodiscard]] bool engine_takes() const { return taker_ == Taker::engine; }
  [[nodiscard]] bool program_takes() const { return taker_ == Taker::program; }
  /// Whether the program has polled lately, or is expected to. check() notices if it does not.
  [[nodiscard]] bool is_program_present() const { return needs_checks() && !is_any_armed_; }
  [[nodiscard]] bool needs_checks() const {
    return taker_ == Taker::program || (taker_ == Taker::engine && needs_responses_ && !is_absent_);
  }
  /// Notes that the program polls; needs no lock. Returns whether on_empty_poll() must be called,
  /// too.
  [[nodiscard]] bool must_note_poll() {
    const auto by = taker_.load(std::memory_order_relaxed);
    if (by == Taker::program) has_polled_.store(true, std::memory_order_relaxed);
    return by == Taker::engine;
  }

  // If engine_takes(). `is_any_armed` says whether a queue is.
  /// The program has found a queue empty.
  void on_empty_poll(ipoib::TimePoint now, bool is_any_armed);
  /// The program posts requests, and has posted them.
  void begin_post(ipoib::TimePoint now, bool is_any_armed);
  void end_post(ipoib::TimePoint now);
  /// Notes that the program polls, and found completions. Returns whether on_completions() must be
  /// called, too.
  [[nodiscard]] bool must_note_completions();
  /// Returns whether the rings have to be read: packets may have come that nobody was woken for.
  [[nodiscard]] bool on_completions(ipoib::TimePoint now);
  /// The program has armed a queue.
  void on_armed();
  /// Whether requests wait for responses.
  void set_needs_responses(bool needs_responses);

  /// Returns the time at which the rings have to be read for check(), or kNever.
  [[nodiscard]] ipoib::TimePoint start_checks(ipoib::TimePoint now);
  /// The rings have just been read. Returns the time of the next check, or kNever.
  [[nodiscard]] ipoib::TimePoint check(ipoib::TimePoint now);

 private:
  enum class Taker : std::uint8_t {
    nobody,
    engine,
    program
  };  ///< nobody: there are no connections
  void set_taker(Taker taker);
  void note_poll();
  void set(std::size_t entry, std::uint32_t& current, bool is_engine);

  const SetWaiter set_;
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
