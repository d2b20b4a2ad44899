#include "link/parked_frames.hpp"

#include <utility>

namespace ipoib::link {

ParkedFrames::ParkedFrames(ParkedFrames&& other) noexcept
    : budget_(other.budget_),
      frames_(std::exchange(other.frames_, {})),
      packets_(std::exchange(other.packets_, 0)) {}

ParkedFrames& ParkedFrames::operator=(ParkedFrames&& other) noexcept {
  // By way of a temporary, so that what was parked here is given back to the budget.
  ParkedFrames taken(std::move(other));
  std::swap(budget_, taken.budget_);
  std::swap(frames_, taken.frames_);
  std::swap(packets_, taken.packets_);
  return *this;
}

ParkedFrames::~ParkedFrames() { budget_->used -= frames_.size(); }

void ParkedFrames::park(Frame&& frame, Purpose purpose, Counters& counters) {
  Frame taken = std::move(frame);
  if (frames_.size() >= budget_->per_neighbour) {
    counters.add(Counter::drop_parked_limit);
  } else if (budget_->used >= budget_->in_all) {
    counters.add(Counter::drop_parked_total_limit);
  } else {
    frames_.push_back(std::move(taken));
    ++budget_->used;
    packets_ += purpose == Purpose::packet ? 1 : 0;
  }
}

std::vector<Frame> ParkedFrames::take() {
  budget_->used -= frames_.size();
  packets_ = 0;
  return std::exchange(frames_, {});
}

void ParkedFrames::drop(Counter why, Counters& counters) {
  counters.add(why, frames_.size());
  (void)take();
}

}  // namespace ipoib::link
