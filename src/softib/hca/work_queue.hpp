// The send or receive queue of a queue pair: a ring of work requests and their scatter elements,
// allocated on construction.
//
// Positions only grow, and wrap at 2^32:   retired <= processed <= posted <= retired + limit.
// A work request occupies its entry until its completion, or that of a later one, is polled
// (IBA 10.8.5.1).
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

namespace softib::hca {

/// The positions of a queue, from which its room follows.
class WorkProgress {
 public:
  explicit WorkProgress(std::uint32_t limit) : limit_(limit) {}

  [[nodiscard]] bool full() const { return posted_ - retired_ >= limit_; }
  /// Number of requests posted and not yet processed.
  [[nodiscard]] std::uint32_t waiting() const { return posted_ - processed_; }
  [[nodiscard]] std::uint32_t processed() const { return processed_; }
  [[nodiscard]] std::uint32_t next_position() const { return posted_; }
  /// Posts the request at next_position(). Requires that the queue is not full.
  void post() {
    assert(!full());
    ++posted_;
  }
  /// Removes the requests from `position` on. Requires that none of them is processed.
  void unpost_from(std::uint32_t position) {
    assert(position - processed_ <= waiting());
    posted_ = position;
  }
  /// The next `count` requests are processed. Requires that so many are waiting.
  void advance(std::uint32_t count) {
    assert(count <= waiting());
    processed_ += count;
  }
  /// Frees the entries up to and including `position`. Requires that they are processed.
  void retire(std::uint32_t position) {
    assert(processed_ - position - 1 <= limit_);
    retired_ = position + 1;
  }
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

  using WorkProgress::post;
  /// Posts a request with these elements. Requires that the queue is not full.
  void post(const Request& request, std::span<const ibv_sge> elements) {
    assert(elements.size() <= max_sge_);
    at(next_position()) = request;
    std::ranges::copy(elements, this->elements(next_position()).begin());
    post();
  }

  [[nodiscard]] Request& at(std::uint32_t position) { return ring_[index(position)]; }
  /// Room for the elements of a request.
  [[nodiscard]] std::span<ibv_sge> elements(std::uint32_t position) {
    return std::span(elements_).subspan(index(position) * max_sge_, max_sge_);
  }
  /// The elements of the request at `position`.
  [[nodiscard]] std::span<const ibv_sge> elements_of(std::uint32_t position) {
    return elements(position).first(at(position).element_count);
  }

 protected:
  [[nodiscard]] std::size_t ring_size() const { return ring_.size(); }
  [[nodiscard]] std::size_t index(std::uint32_t position) const { return position & mask_; }

 private:
  std::vector<Request> ring_;
  std::vector<ibv_sge> elements_;
  std::uint32_t mask_;
  std::uint32_t max_sge_;
};

}  // namespace softib::hca
