#include "link/parked_frames.hpp"

#include <utility>

namespace ipoib::link {

ParkedFrames::ParkedFrames(ParkedFrames&& other) noexcept
    : budget_(other.budget_),
      frames_(std::exchange(other.frames_, {})),
      octets_(std::exchange(other.octets_, 0)),
      packets_(std::exchange(other.packets_, 0)) {}

ParkedFrames& ParkedFrames::operator=(ParkedFrames&& other) noexcept {
  // By way of a temporary, so that what was parked here is given back to the budget.
  ParkedFrames taken(std::move(other));
  std::swap(budget_, taken.budget_);
  std::swap(frames_, taken.frames_);
  std::swap(octets_, taken.octets_);
  std::swap(packets_, taken.packets_);
  return *this;
}

ParkedFrames::~ParkedFrames() { (void)take(); }

void ParkedFrames::park(Frame&& frame, Purpose purpose, Counters& counters) {
  Frame taken = std::move(frame);
  const std::size_t octets = taken.capacity();
  if (frames_.size() >= budget_->per_neighbour || octets_ + octets > budget_->bytes_per_neighbour) {
    counters.add(Counter::drop_parked_limit);
  } else if (budget_->used >= budget_->in_all ||
             budget_->octets_used + octets > budget_->bytes_in_all) {
    counters.add(Counter::drop_parked_total_limit);
  } else {
    frames_.push_back(std::move(taken));
    octets_ += octets;
    ++budget_->used;
    budget_->octets_used += octets;
    packets_ += purpose == Purpose::packet ? 1 : 0;
  }
}

std::vector<Frame> ParkedFrames::take() {
  budget_->used -= frames_.size();
  budget_->octets_used -= std::exchange(octets_, 0);
  packets_ = 0;
  return std::exchange(frames_, {});
}

void ParkedFrames::drop(Counter why, Counters& counters) {
  counters.add(why, frames_.size());
  (void)take();
}

}  // namespace ipoib::link
