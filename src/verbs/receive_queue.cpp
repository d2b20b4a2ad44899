#include "verbs/receive_queue.hpp"

#include <utility>

#include "verbs/receive_layout.hpp"

namespace ipoib::verbs {

void ReceiveQueue::create(const Config& config) {
  config_ = config;
  pool_ = std::make_unique<FramePool>(config.depth + config.spare, config.size);
  frames_.resize(config.depth);
  work_.resize(kReceiveChain);
  elements_.resize(kReceiveChain);
  release_all();
}

bool ReceiveQueue::post(ibv_qp& queue_pair, std::size_t at_least) {
  while (!idle_.empty() && idle_.size() >= at_least) {
    const auto filled = fill_chain();
    if (filled == 0) {
      if (config_.spare != 0) ++counters_.receive_starved;
      return true;
    }
    ibv_recv_wr* refused = nullptr;
    if (config_.post(&queue_pair, work_.data(), &refused) == 0) continue;
    ++counters_.post_refused;
    for (auto* work = refused; work != nullptr; work = work->next) (void)complete(work->wr_id);
    return false;
  }
  return true;
}

Frame ReceiveQueue::complete(std::uint64_t id) {
  const auto slot = slot_of(id);
  if (config_.depth != 0) idle_.push_back(slot);
  return std::move(frames_[slot]);
}

void ReceiveQueue::release_all() {
  for (auto& frame : frames_) frame.release();
  idle_.clear();
  for (auto slot = config_.depth; slot > 0; --slot) idle_.push_back(slot - 1);
}

void ReceiveQueue::stop() {
  config_.depth = 0;
  idle_.clear();
}

/// Builds one chain in `work_`, and returns its length: 0 if no frame is free.
std::size_t ReceiveQueue::fill_chain() {
  std::size_t filled = 0;
  while (filled < kReceiveChain && !idle_.empty()) {
    const auto slot = idle_.back();
    Frame& frame = frames_[slot] = pool_->take();
    if (!frame) break;
    idle_.pop_back();
    frame.window(0, config_.size);
    auto& element = elements_[filled];
    element.addr = reinterpret_cast<std::uintptr_t>(frame.bytes().data());
    element.length = config_.size;
    element.lkey = memory_.local_key(frame.bytes().data());
    auto& work = work_[filled];
    work.wr_id = config_.id_flags | slot;
    work.next = &work + 1;
    work.sg_list = &element;
    work.num_sge = 1;
    ++filled;
  }
  if (filled > 0) work_[filled - 1].next = nullptr;
  return filled;
}

}  // namespace ipoib::verbs
