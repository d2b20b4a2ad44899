#include "link/parked_frames.hpp"

#include <utility>

namespace ipoib::link {

ParkedFrames::ParkedFrames(ParkedFrames&& other) noexcept
    : budget_(other.budget_), frames_(std::exchange(other.frames_, {})) {}

ParkedFrames& ParkedFrames::operator=(ParkedFrames&& other) noexcept {
  // By way of a temporary, so that what was parked here is given back to the budget.
  ParkedFrames taken(std::move(other));
  std::swap(budget_, taken.budget_);
  std::swap(frames_, taken.frames_);
  return *this;
}

ParkedFrames::~ParkedFrames() { budget_->used -= frames_.size(); }

void ParkedFrames::park(Frame&& frame, Counters& counters) {
  Frame taken = std::move(frame);
  if (frames_.size() >= budget_->per_neighbour) {
    counters.add(Counter::drop_parked_limit);
  } else if (budget_->used >= budget_->in_all) {
    counters.add(Counter::drop_parked_total_limit);
  } else {
    frames_.push_back(std::move(taken));
    ++budget_->used;
  }
}

std::vector<Frame> ParkedFrames::take() {
  budget_->used -= frames_.size();
  return std::exchange(frames_, {});
}

void ParkedFrames::drop(Counter why, Counters& counters) {
  counters.add(why, frames_.size());
  (void)take();
}

}  // namespace ipoib::link
