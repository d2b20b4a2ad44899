#include "softib/endpoint/faulty_link.hpp"

#include <utility>

#include "ipoib/monotonic_clock.hpp"
#include "softib/transport/all_signals_blocked.hpp"

namespace softib::endpoint {

void FaultyLink::send(const LinkFaults& faults, WirePacket packet) {
  bool is_lost = false;
  bool is_duplicated = false;
  {
    const std::lock_guard lock(mutex_);
    is_lost = happens(faults.loss);
    is_duplicated = happens(faults.duplicate);
  }
  if (is_lost) return count_(Event::lost);
  dispatch(faults, packet);
  if (!is_duplicated) return;
  count_(Event::duplicated);
  dispatch(faults, packet);
}

void FaultyLink::dispatch(const LinkFaults& faults, const WirePacket& packet) {
  {
    std::unique_lock lock(mutex_);
    ipoib::Duration wait = std::chrono::milliseconds(faults.delay);
    if (happens(faults.reorder)) wait += kOvertakingTime;
    if (wait != ipoib::Duration::zero()) {
      if (stopping_ || held_.size() == kMaxHeldPackets) {
        lock.unlock();
        return count_(Event::lost);
      }
      held_.emplace(ipoib::monotonic_now() + wait, packet);
      if (!thread_.joinable()) {
        const transport::AllSignalsBlocked inherited;
        thread_ = std::thread([this] { run(); });
      }
      changed_->notify_one();
      return;
    }
  }
  send_(packet);
}

void FaultyLink::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (held_.empty()) {
      changed_->wait(lock);
      continue;
    }
    const auto first = held_.begin();
    const auto left = first->first - ipoib::monotonic_now();
    if (left > ipoib::Duration::zero()) {
      changed_->wait_for(lock, left);
      continue;
    }
    const WirePacket packet = std::move(first->second);
    held_.erase(first);
    lock.unlock();
    send_(packet);
    lock.lock();
  }
}

void FaultyLink::stop() {
  if (generation_ != transport::fork_generation()) {
    if (!thread_.joinable()) return;
    // The thread runs in the parent. Here nothing ends its wait, so the destructor of what it waits
    // for would not return.
    thread_.detach();
    (void)changed_.release();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    held_.clear();
    changed_->notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

/// splitmix64.
bool FaultyLink::happens(std::uint16_t share) {
  if (share == 0) return false;
  random_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t value = random_;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
  value ^= value >> 31;
  return value % LinkFaults::kAlways < share;
}

}  // namespace softib::endpoint
