#include "link/parked_frames.hpp"

#include <utility>

#include "wire/transport.hpp"

namespace ipoib::link {

namespace {

std::optional<wire::FragmentedDatagram> datagram_of_frame(const Frame& frame) {
  return wire::datagram_of(wire::ip_of(frame.bytes()));
}

std::size_t queued_bytes(const Frame& packet) {
  return packet.size() + ParkingBudget::kPacketOverhead;
}

}  // namespace

ParkedFrames::ParkedFrames(ParkedFrames&& other) noexcept
    : budget_(other.budget_), parked_(std::exchange(other.parked_, {})) {}

ParkedFrames& ParkedFrames::operator=(ParkedFrames&& other) noexcept {
  // The temporary returns the frames that were parked here to the budget.
  ParkedFrames taken(std::move(other));
  std::swap(budget_, taken.budget_);
  std::swap(parked_, taken.parked_);
  return *this;
}

ParkedFrames::~ParkedFrames() { (void)take(); }

void ParkedFrames::park(Frame&& frame, Purpose purpose, Counters& counters) {
  Frame taken = std::move(frame);
  if (purpose == Purpose::reply) {
    if (replies() >= budget_->replies_per_neighbour || budget_->replies_used >= budget_->replies) {
      return counters.add(Counter::drop_reply_limit);
    }
    parked_.frames.push_back(std::move(taken));
    ++budget_->replies_used;
    return;
  }
  if (const auto why = refusal(taken)) {
    counters.add(*why);
    return drop_other_fragments(taken, counters);
  }
  parked_.queued += queued_bytes(taken);
  parked_.slots += taken.capacity();
  budget_->bytes_used += taken.capacity();
  parked_.frames.push_back(std::move(taken));
  ++parked_.packets;
  ++budget_->used;
}

/// Why a packet cannot be parked; nullopt if it can.
std::optional<Counter> ParkedFrames::refusal(const Frame& packet) const {
  if (!parked_.incomplete.empty()) {
    const auto datagram = datagram_of_frame(packet);
    if (datagram && is_incomplete(*datagram)) return Counter::drop_parked_fragment;
  }
  if (parked_.queued + queued_bytes(packet) > budget_->bytes_per_neighbour) {
    return Counter::drop_parked_limit;
  }
  const std::size_t reserved = parked_.packets < budget_->first_packets ? 0 : 1;  // quarters
  const bool is_full =
      budget_->used >= budget_->frames - reserved * budget_->frames / 4 ||
      budget_->bytes_used + packet.capacity() > budget_->bytes - reserved * budget_->bytes / 4;
  return is_full ? std::optional(Counter::drop_parked_total_limit) : std::nullopt;
}

/// Drops the other fragments of a datagram: those that are parked, and those still to come.
void ParkedFrames::drop_other_fragments(const Frame& dropped, Counters& counters) {
  const auto datagram = datagram_of_frame(dropped);
  if (!datagram || is_incomplete(*datagram)) return;
  if (parked_.incomplete.size() >= budget_->incomplete_per_neighbour)
    parked_.incomplete.erase(parked_.incomplete.begin());
  parked_.incomplete.push_back(*datagram);
  std::size_t slots = 0;
  const std::size_t count = std::erase_if(parked_.frames, [&](const Frame& parked) {
    if (datagram_of_frame(parked) != datagram) return false;
    parked_.queued -= queued_bytes(parked);
    slots += parked.capacity();
    return true;
  });
  parked_.packets -= count;
  parked_.slots -= slots;
  budget_->used -= count;
  budget_->bytes_used -= slots;
  counters.add(Counter::drop_parked_fragment, count);
}

std::vector<Frame> ParkedFrames::take() {
  budget_->replies_used -= replies();
  budget_->used -= parked_.packets;
  budget_->bytes_used -= parked_.slots;
  auto taken = std::exchange(parked_, {});
  parked_.since = taken.since;
  return std::move(taken.frames);
}

void ParkedFrames::drop(Counter why, Counters& counters) {
  counters.add(why, parked_.frames.size());
  (void)take();
}

}  // namespace ipoib::link
