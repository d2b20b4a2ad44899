#include "verbs/receive_queue.hpp"

#include <utility>

#include "verbs/receive_layout.hpp"

namespace ipoib::verbs {

void ReceiveQueue::make(const Shape& shape) {
  shape_ = shape;
  pool_ = std::make_unique<FramePool>(shape.depth + shape.spare, shape.octets);
  frames_.resize(shape.depth);
  work_.resize(kReceiveChain);
  pieces_.resize(kReceiveChain);
  take_back();
}

bool ReceiveQueue::post(ibv_qp& queue_pair, std::size_t at_least) {
  while (!idle_.empty() && idle_.size() >= at_least) {
    const auto filled = fill_chain();
    if (filled == 0) {
      if (shape_.spare != 0) ++counters_.receive_starved;
      return true;
    }
    ibv_recv_wr* refused = nullptr;
    if (shape_.post(&queue_pair, work_.data(), &refused) == 0) continue;
    ++counters_.post_refused;
    for (auto* work = refused; work != nullptr; work = work->next) (void)complete(work->wr_id);
    return false;
  }
  return true;
}

Frame ReceiveQueue::complete(std::uint64_t id) {
  const auto slot = slot_of(id);
  if (shape_.depth != 0) idle_.push_back(slot);
  return std::move(frames_[slot]);
}

void ReceiveQueue::take_back() {
  for (auto& frame : frames_) frame.release();
  idle_.clear();
  for (auto slot = shape_.depth; slot > 0; --slot) idle_.push_back(slot - 1);
}

void ReceiveQueue::stop() {
  shape_.depth = 0;
  idle_.clear();
}

/// Builds one chain in `work_`; returns its length, 0 when no frame is free.
std::size_t ReceiveQueue::fill_chain() {
  std::size_t filled = 0;
  while (filled < kReceiveChain && !idle_.empty()) {
    const auto slot = idle_.back();
    Frame& frame = frames_[slot] = pool_->take();
    if (!frame) break;
    idle_.pop_back();
    frame.window(0, shape_.octets);
    auto& piece = pieces_[filled];
    piece.addr = reinterpret_cast<std::uintptr_t>(frame.bytes().data());
    piece.length = shape_.octets;
    piece.lkey = memory_.local_key(frame.bytes().data());
    auto& work = work_[filled];
    work.wr_id = shape_.mark | slot;
    work.next = &work + 1;
    work.sg_list = &piece;
    work.num_sge = 1;
    ++filled;
  }
  if (filled > 0) work_[filled - 1].next = nullptr;
  return filled;
}

}  // namespace ipoib::verbs
