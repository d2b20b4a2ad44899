// One of the queues of a queue pair: a ring of work requests with their scatter elements, all
// allocated when it is made.
//
// Positions only grow, and wrap at 2^32:   retired <= processed <= posted <= retired + limit.
// A work request holds its place until its completion, or that of a later one, has been polled
// (IBA 10.8.5.1: only then does the consumer know that it is done).
#pragma once

#include <infiniband/verbs.h>

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace softib::hca {

/// How far the requests of a queue have come.
class WorkProgress {
 public:
  explicit WorkProgress(std::uint32_t limit) : limit_(limit) {}

  [[nodiscard]] bool full() const { return posted_ - retired_ >= limit_; }
  /// Those not yet processed.
  [[nodiscard]] std::uint32_t waiting() const { return posted_ - processed_; }
  [[nodiscard]] std::uint32_t processed() const { return processed_; }
  [[nodiscard]] std::uint32_t next_position() const { return posted_; }
  /// Posts what has been written at next_position(); the queue is not full.
  void post() { ++posted_; }
  /// Takes back what has been posted from `position` on, none of which is processed.
  void take_back(std::uint32_t position) { posted_ = position; }
  void advance(std::uint32_t count) { processed_ += count; }
  /// Gives back the place at `position` and all before it.
  void retire(std::uint32_t position) { retired_ = position + 1; }
  void clear() { retired_ = processed_ = posted_; }

 private:
  std::uint32_t limit_;
  std::uint32_t posted_ = 0;
  std::uint32_t processed_ = 0;
  std::uint32_t retired_ = 0;
};

template <class Request>
class WorkQueue : public WorkProgress {
 public:
  WorkQueue(std::uint32_t limit, std::uint32_t max_sge)
      : WorkProgress(limit),
        ring_(limit == 0 ? 0 : std::bit_ceil(limit)),
        elements_(ring_.size() * max_sge),
        mask_(ring_.empty() ? 0 : static_cast<std::uint32_t>(ring_.size() - 1)),
        max_sge_(max_sge) {}

  [[nodiscard]] Request& at(std::uint32_t position) { return ring_[position & mask_]; }
  [[nodiscard]] std::span<ibv_sge> elements(std::uint32_t position) {
    return std::span(elements_).subspan(std::size_t{position & mask_} * max_sge_, max_sge_);
  }

 private:
  std::vector<Request> ring_;
  std::vector<ibv_sge> elements_;
  std::uint32_t mask_;
  std::uint32_t max_sge_;
};

}  // namespace softib::hca
