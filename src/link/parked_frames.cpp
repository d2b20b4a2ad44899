#include "link/parked_frames.hpp"

#include <utility>

namespace ipoib::link {

ParkedFrames::ParkedFrames(ParkedFrames&& other) noexcept
    : budget_(other.budget_),
      frames_(std::exchange(other.frames_, {})),
      bytes_(std::exchange(other.bytes_, 0)),
      packets_(std::exchange(other.packets_, 0)),
      since_(std::exchange(other.since_, kNever)) {}

ParkedFrames& ParkedFrames::operator=(ParkedFrames&& other) noexcept {
  // The temporary returns the frames that were parked here to the budget.
  ParkedFrames taken(std::move(other));
  std::swap(budget_, taken.budget_);
  std::swap(frames_, taken.frames_);
  std::swap(bytes_, taken.bytes_);
  std::swap(packets_, taken.packets_);
  std::swap(since_, taken.since_);
  return *this;
}

ParkedFrames::~ParkedFrames() { (void)take(); }

void ParkedFrames::park(Frame&& frame, Purpose purpose, Counters& counters) {
  Frame taken = std::move(frame);
  if (purpose == Purpose::reply) {
    if (replies() >= budget_->replies_per_neighbour || budget_->replies_used >= budget_->replies) {
      return counters.add(Counter::drop_reply_limit);
    }
    frames_.push_back(std::move(taken));
    ++budget_->replies_used;
    return;
  }
  const std::size_t bytes = taken.capacity();
  if (packets_ >= budget_->frames_per_neighbour || bytes_ + bytes > budget_->bytes_per_neighbour) {
    counters.add(Counter::drop_parked_limit);
  } else if (budget_->used >= budget_->frames || budget_->bytes_used + bytes > budget_->bytes) {
    counters.add(Counter::drop_parked_total_limit);
  } else {
    frames_.push_back(std::move(taken));
    bytes_ += bytes;
    ++budget_->used;
    budget_->bytes_used += bytes;
    ++packets_;
  }
}

std::vector<Frame> ParkedFrames::take() {
  budget_->replies_used -= replies();
  budget_->used -= std::exchange(packets_, 0);
  budget_->bytes_used -= std::exchange(bytes_, 0);
  return std::exchange(frames_, {});
}

void ParkedFrames::drop(Counter why, Counters& counters) {
  counters.add(why, frames_.size());
  (void)take();
}

}  // namespace ipoib::link
