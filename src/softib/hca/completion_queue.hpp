// A completion queue (IBA 10.2.4, 11.4.2): a ring of completions, and its notification state.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/hca/work_queue.hpp"

namespace softib::hca {

/// The clock of completions. As long as queues keep times, it has to be set before anything that
/// may complete a request.
struct CompletionClock {
  ipoib::TimePoint now{};
  std::uint32_t users = 0;  ///< completion queues
};

class CompletionQueue {
 public:
  /// Which completion raises an event: none, a solicited or unsuccessful one, or any.
  enum class Arm : std::uint8_t { off, solicited, any };
  enum class PushResult : std::uint8_t {
    stored,
    stored_and_notify,  ///< stored; the caller must raise a completion event
    overrun,            ///< dropped because the queue is full, which is in error from now on
    dropped,            ///< dropped because the queue was in error
  };

  /// A queue that keeps the times of completions if it has a clock, which must outlive it.
  explicit CompletionQueue(std::uint32_t capacity, CompletionClock* clock = nullptr);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  /// Returns the next entry, zeroed. The caller fills it in place and calls push(). A copy of a
  /// struct that was just written field by field would cause a store-forwarding stall.
  [[nodiscard]] ibv_wc& next();
  /// Adds the completion at next(). poll() retires the work request at `position` of `queue`,
  /// unless that is null.
  PushResult push(WorkProgress* queue, std::uint32_t position, bool solicited);
  /// Removes completions from the front and retires their work requests. Returns how many; -1 if
  /// the queue is in error and empty. `times` is empty, or as long as `out`, and then gets the
  /// times if the queue keeps them.
  int poll(std::span<ibv_wc> out, std::span<ipoib::TimePoint> times = {});
  /// Requests one event for the next completion (IBA 11.4.2.2). A request for any completion
  /// overrides one for solicited completions until the event is raised. True: a completion that has
  /// not been polled, and came after the last event, is such a one, and the caller must raise the
  /// event now. IBA does not demand this, but adapters whose doorbell has the number of polled
  /// completions do it, and programs rely on it. Others (perftest) wait for one event for each
  /// completion, so there is no second event for one.
  [[nodiscard]] bool arm(bool solicited_only);
  [[nodiscard]] bool is_armed() const { return arm_ != Arm::off; }
  /// Discards the completions of a queue pair that is destroyed or reset.
  void discard(Qpn qp);
  /// Returns false and changes nothing if the stored completions do not fit.
  bool resize(std::uint32_t capacity);

  /// Whether poll() would return 0. Any thread may call this without a lock.
  [[nodiscard]] bool idle() const {
    return size_.load(std::memory_order_acquire) == 0 && !in_error_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

  std::uint32_t handle = 0;
  std::uint32_t users = 0;  ///< send and receive queues that complete here
  void* owner = nullptr;    ///< for the creator's use

 private:
  struct Entry {
    ibv_wc completion;
    WorkProgress* queue;
    std::uint32_t position;
    bool is_solicited;
  };
  [[nodiscard]] std::uint32_t index(std::uint32_t offset) const { return (head_ + offset) & mask_; }
  [[nodiscard]] Entry& at(std::uint32_t offset) { return ring_[index(offset)]; }

  CompletionClock* clock_;
  std::vector<Entry> ring_;              ///< at least capacity + 1 entries
  std::vector<ipoib::TimePoint> times_;  ///< of the entries, or empty
  std::uint32_t mask_;
  std::uint32_t capacity_;
  std::uint32_t head_ = 0;
  std::atomic<std::uint32_t> size_ = 0;
  /// Completions from the front to the last solicited or unsuccessful one.
  std::uint32_t solicited_ = 0;
  /// Completions from the front that were there when the last event was raised.
  std::uint32_t announced_ = 0;
  Arm arm_ = Arm::off;
  std::atomic<bool> in_error_ = false;
};

}  // namespace softib::hca
