// A completion queue (IBA 10.2.4, 11.4.2): a ring of completions, and the request to be told of the
// next one.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "softib/hca/work_queue.hpp"

namespace softib::hca {

class QueuePair;

class CompletionQueue {
 public:
  /// What asks for an event: nothing, a solicited (or failed) completion, or any.
  enum class Arm : std::uint8_t { off, solicited, any };
  /// What became of a completion.
  enum class Pushed : std::uint8_t {
    stored,
    stored_and_notify,  ///< and the event that was asked for has happened
    overrun,            ///< the queue was full, and is in error from now on
    lost,               ///< it was in error before
  };

  explicit CompletionQueue(std::uint32_t capacity);

  /// Where the next completion is to be written, all zeroes; then it is pushed. In its place: what
  /// is written field by field and read in one piece at once makes a processor wait.
  [[nodiscard]] ibv_wc& next();
  /// `position` is the work request's place in its queue, which is given back by poll().
  Pushed push(WorkProgress& queue, std::uint32_t position, bool solicited);
  /// Takes completions from the front and gives their work requests' places back. Returns how many;
  /// -1 when the queue is in error and empty.
  int poll(std::span<ibv_wc> out);
  /// Asks for one event, for what is added after this call (IBA 11.4.2.2). Asking for any prevails
  /// over asking for solicited ones until the event has happened.
  void arm(bool solicited_only);
  [[nodiscard]] bool is_armed() const { return arm_ != Arm::off; }
  /// Forgets the completions of a queue pair that is destroyed or reset.
  void forget(const QueuePair& qp);
  /// False, and no change, when what is in the queue does not fit.
  bool resize(std::uint32_t capacity);

  /// Whether poll() would return 0. Any thread may ask: who finds nothing need not take a lock.
  [[nodiscard]] bool idle() const {
    return size_.load(std::memory_order_acquire) == 0 && !in_error_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

  std::uint32_t handle = 0;
  std::uint32_t users = 0;            ///< queues of queue pairs that complete here
  std::vector<QueuePair*> receivers;  ///< whose receives complete here
  void* owner = nullptr;              ///< for whoever made it

 private:
  struct Entry {
    ibv_wc completion;
    WorkProgress* queue;
    std::uint32_t position;
  };
  [[nodiscard]] Entry& at(std::uint32_t offset) { return ring_[(head_ + offset) & mask_]; }

  std::vector<Entry> ring_;  ///< one more than there is capacity
  std::uint32_t mask_;
  std::uint32_t capacity_;
  std::uint32_t head_ = 0;
  std::atomic<std::uint32_t> size_ = 0;
  Arm arm_ = Arm::off;
  std::atomic<bool> in_error_ = false;
};

}  // namespace softib::hca
